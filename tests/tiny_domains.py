"""Three toy domains and a tiny decoder-only model with its tokenizer: nothing is downloaded."""

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

DOMAINS = {"law": "the court holds that", "code": "return the value of", "news": "it was said today"}
SIZES = {"law": 30, "code": 20, "news": 6}
BENCHMARK = {"law": 0.5, "code": 0.5, "news": 0.5}


def texts(domain: str, count: int) -> Dataset:
    words = DOMAINS[domain].split()
    return Dataset.from_list(
        [{"text": " ".join((words * 4)[place : place + 9])} for place in [*range(7)] * count][:count]
    )


def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<unk>", "<pad>", "</s>", *sorted({word for text in DOMAINS.values() for word in text.split()})]
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")


def model() -> LlamaForCausalLM:
    torch.manual_seed(1)
    shape = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=20, num_key_value_heads=2, pad_token_id=1, eos_token_id=2, **shape))
