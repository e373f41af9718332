"""torch_pluggable.py - GMLake behind PyTorch without a preload: its C entry points as a pluggable allocator.

    torch_pluggable.py [allocator|pool]

allocator: all of PyTorch's device memory. pool: that of a torch.cuda.MemPool, the rest stays with PyTorch. The library
is $GMLAKE_TEST_LIBRARY, or build/release/lib/libgmlake.so. Exit 77 without a GPU, PyTorch or the library.
"""
import os
import pathlib
import sys

LIBRARY = os.environ.get("GMLAKE_TEST_LIBRARY") or str(
    pathlib.Path(__file__).resolve().parent.parent.parent / "build" / "release" / "lib" / "libgmlake.so")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def train(torch, steps):
    """Losses of a small model on batches of many sizes."""
    torch.manual_seed(6)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(7)
    losses = []
    for _ in range(steps):
        rows = int(torch.randint(64, 4096, (1,), generator=generator))
        batch = torch.randn(rows, 1024, generator=generator).cuda()
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def whole(torch, ours):
    """Swaps the allocator before the first allocation, as PyTorch asks for."""
    torch.cuda.memory.change_current_allocator(ours)
    losses = train(torch, 40)
    assert losses[-1] < losses[0], losses
    big = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").fill_(7)
    assert int(big[::4096].sum()) == 7 * (1 << 18)
    del big
    try:  # PyTorch does not look at what a pluggable allocator gives: without memory the tensor has none
        nothing = torch.empty(1 << 50, dtype=torch.uint8, device="cuda").data_ptr()
    except RuntimeError:
        nothing = 0
    assert nothing == 0, "a petabyte was granted"
    assert torch.ones(1000, device="cuda").sum().item() == 1000


def pool(torch, ours):
    """A MemPool gets its segments from us; tensors live on, and outlive the pool's context."""
    memory = torch.cuda.MemPool(ours.allocator())
    with torch.cuda.use_mem_pool(memory):
        inside = [torch.full((1 << 20,), value, device="cuda") for value in range(20)]
        losses = train(torch, 10)
    outside = torch.full((1 << 20,), 99.0, device="cuda")
    assert losses[-1] < losses[0], losses
    assert all(float(one.float().mean()) == value for value, one in enumerate(inside))
    assert float(outside.float().mean()) == 99.0
    assert memory.snapshot(), "the pool has no segment"
    del inside
    torch.cuda.empty_cache()


def main():
    if not os.path.exists("/dev/nvidia0"):
        skip("no /dev/nvidia0")
    try:
        import torch
    except ImportError:
        skip("no PyTorch")
    if not os.path.exists(LIBRARY):
        skip(f"no {LIBRARY}")
    way = sys.argv[1] if len(sys.argv) > 1 else "allocator"
    ours = torch.cuda.memory.CUDAPluggableAllocator(LIBRARY, "gmlake_torch_alloc", "gmlake_torch_free")
    {"allocator": whole, "pool": pool}[way](torch, ours)
    torch.cuda.synchronize()
    print(f"{way}: ok")


if __name__ == "__main__":
    main()
