"""Fine-tunes NLLB into English with the paper's curriculum. DATA has {lang}.{train,dev}.tsv: sentence, tab, English.

python examples/nllb.py facebook/nllb-200-distilled-600M DATA 20000
"""

import sys
from pathlib import Path

import transformers as hf
from datasets import Dataset

from cclm import CompetenceGate, Curriculum, InverseCompetence, LanguageGraph
from cclm.integrations.transformers import CurriculumTrainer, measure_benchmark

NAME, DATA, STEPS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
HIGH, LOW = ["tur_Latn", "rus_Cyrl"], ["azj_Latn", "bel_Cyrl"]
tokenizer = hf.AutoTokenizer.from_pretrained(NAME, tgt_lang="eng_Latn")


def pairs(lang: str, split: str) -> list[list[str]]:
    return [line.split("\t") for line in (DATA / f"{lang}.{split}.tsv").read_text(encoding="utf-8").splitlines()]


def tokenized(lang: str, split: str) -> Dataset:
    tokenizer.src_lang = lang
    rows = [
        tokenizer(text, text_target=english, truncation=True, max_length=128) for text, english in pairs(lang, split)
    ]
    return Dataset.from_list([dict(row) for row in rows])


train, dev = ({lang: tokenized(lang, split) for lang in HIGH + LOW} for split in ("train", "dev"))


def parts(folder: str, steps: int) -> dict[str, object]:
    """What any Trainer needs: the pretrained model, settings, tokenizer and collator."""
    args = hf.Seq2SeqTrainingArguments(
        folder, max_steps=steps, learning_rate=1e-4, per_device_train_batch_size=16, gradient_accumulation_steps=2,
        eval_strategy="steps", eval_steps=max(1, steps // 40), save_steps=max(1, steps // 40), report_to="none",
    )  # fmt: skip
    model, collator = hf.AutoModelForSeq2SeqLM.from_pretrained(NAME), hf.DataCollatorForSeq2Seq(tokenizer)
    return {"model": model, "args": args, "processing_class": tokenizer, "data_collator": collator}


def bitext(lang: str) -> hf.Trainer:
    """Trains a model of one language, for its reference loss L*."""
    one = parts(f"out/bitext/{lang}", STEPS // 4)
    return hf.Seq2SeqTrainer(**one, train_dataset=train[lang], eval_dataset=dev[lang])


texts = {lang: [text for text, _ in pairs(lang, "train")] for lang in HIGH + LOW}
graph = LanguageGraph.from_texts(tokenizer, texts, high_resource=HIGH, low_resource=LOW)
benchmark = measure_benchmark(bitext, HIGH + LOW, file="out/benchmark.json")
sizes = {lang: len(each) for lang, each in train.items()}
curriculum = Curriculum(CompetenceGate(graph, threshold=0.9), InverseCompetence(), sizes=sizes, benchmark=benchmark)
everything = {**parts("out/shared", STEPS), "train_dataset": train, "eval_dataset": dev}
trainer = CurriculumTrainer(**everything, curriculum=curriculum)
trainer.train(resume_from_checkpoint=any(Path("out/shared").glob("checkpoint-*")))
for lang, why in curriculum.explain()["admissions"].items():
    print(f"step {why['step']:6,}  {lang} admitted: {why['reason']}")
