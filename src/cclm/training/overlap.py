"""Sums gradients over the ranks while the backward pass is still computing, for GPUs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

BUCKET = 1 << 22
"""Numbers that are summed in one call: enough for the speed of the network, few enough to begin early."""


@dataclass
class _Bucket:
    """Parameters whose gradients are sent together."""

    parameters: list[nn.Parameter] = field(default_factory=list)
    missing: int = 0
    """Gradients that the backward pass has not finished yet."""

    def size(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters)


@dataclass(frozen=True)
class _Sent:
    gradients: list[Tensor]
    flat: Tensor
    work: Any  # of torch.distributed

    def receive(self) -> None:
        """Puts the sums in the place of the gradients. On a GPU this only queues the copies."""
        self.work.wait()
        if self.flat is not self.gradients[0]:
            parts = torch.split(self.flat, [gradient.numel() for gradient in self.gradients])
            views = [part.view_as(gradient) for part, gradient in zip(parts, self.gradients, strict=True)]
            torch._foreach_copy_(self.gradients, views)


class OverlappedSums:
    """Sends gradients in buckets, from the last layer to the first, each as soon as it is complete.

    Every rank sends the buckets in the same order, whatever order its gradients become ready in.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], group: Any, call: Callable[..., Any]) -> None:
        self._group, self._call = group, call
        self._buckets = _divided([parameter for parameter in parameters if parameter.requires_grad])
        self._bucket_of = {id(p): bucket for bucket in self._buckets for p in bucket.parameters}
        self._is_sending = False
        self._sent: list[_Sent] = []
        self._next = 0
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(self._ready)  # type: ignore[no-untyped-call]

    @contextmanager
    def sending(self) -> Iterator[None]:
        """A `with` block around the last backward pass of an update: gradients are sent as soon as they are ready."""
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)
        self._sent, self._next, self._is_sending = [], 0, True
        try:
            yield
        finally:
            self._is_sending = False

    def finish(self) -> None:
        """Replaces the gradients by their sums. Parameters that the model did not use have none on any rank."""
        for bucket in self._buckets[self._next :]:
            self._send(bucket)
        for sent in self._sent:
            self._call(sent.receive)
        self._sent = []

    def _ready(self, parameter: Tensor) -> None:
        if not self._is_sending:
            return
        self._bucket_of[id(parameter)].missing -= 1
        while self._next < len(self._buckets) and not self._buckets[self._next].missing:
            self._send(self._buckets[self._next])
            self._next += 1

    def _send(self, bucket: _Bucket) -> None:
        gradients = [parameter.grad for parameter in bucket.parameters if parameter.grad is not None]
        if not gradients:
            return
        alone = len(gradients) == 1 and gradients[0].is_contiguous()
        flat = gradients[0] if alone else torch.cat([gradient.flatten() for gradient in gradients])
        work = self._call(dist.all_reduce, flat, group=self._group, async_op=True)
        self._sent.append(_Sent(gradients, flat, work))


def _divided(parameters: Sequence[nn.Parameter]) -> list[_Bucket]:
    buckets = [_Bucket()]
    for parameter in reversed(parameters):
        if buckets[-1].parameters and buckets[-1].size() + parameter.numel() > BUCKET:
            buckets.append(_Bucket())
        buckets[-1].parameters.append(parameter)
    return buckets
