"""nccl.py - NCCL on blocks that GMLake has stitched together: all-reduce, plain, on registered buffers, and captured.

    gmlake run -- python3 nccl.py [--bytes N] [--rounds N]

One process, a communicator over all of its GPUs; the driver and NCCL are called by their C interfaces, no framework is
needed. On each GPU the memory is first given out in pieces, every second piece is freed, and the buffers of the
all-reduce are then made of what lies scattered. Prints a line for each way; exit 1 if a sum is wrong or a call fails, 77
without a GPU or NCCL. Runs without GMLake, too.
"""
import argparse
import ctypes
import glob
import importlib.util
import os
import sys

SKIP = 77
MIB = 1 << 20
INT32, SUM = 2, 0  # ncclInt32, ncclSum
RELAXED = 2        # CU_STREAM_CAPTURE_MODE_RELAXED

pointer = ctypes.c_void_p
size_t = ctypes.c_size_t


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def find_nccl():
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations if spec else []):
        for path in glob.glob(os.path.join(folder, "nccl", "lib", "libnccl.so.2")):
            return path
    return "libnccl.so.2"


class Library:
    """Calls by name that raise when the result is not 0."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            code = function(*arguments)
            if code != 0:
                raise AssertionError(f"{name} gives {code}")
        return call


class Gpu:
    """One GPU: its primary context, a stream, and buffers on memory that was scattered first."""

    def __init__(self, cu, ordinal, count):
        self.cu, self.count = cu, count
        device, self.context, self.stream = ctypes.c_int(), pointer(), pointer()
        cu.cuDeviceGet(ctypes.byref(device), ordinal)
        cu.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device)
        self.enter()
        cu.cuStreamCreate(ctypes.byref(self.stream), 1)
        bytes_each = count * 4
        pieces = [self.allocate(4 * MIB) for _ in range(2 * (2 * bytes_each // (4 * MIB) + 2))]
        for piece in pieces[::2]:
            cu.cuMemFree_v2(piece)
        cu.cuCtxSynchronize()
        self.send, self.receive = self.allocate(bytes_each), self.allocate(bytes_each)
        self.check_range(self.send, bytes_each)

    def enter(self):
        self.cu.cuCtxSetCurrent(self.context)

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.cu.cuMemAlloc_v2(ctypes.byref(address), size_t(size))
        return address

    def check_range(self, block, size):
        """Every part of a block is the block: what NCCL registers is found by such questions."""
        base, length = ctypes.c_uint64(), size_t()
        for at in range(0, size, MIB):
            inside = ctypes.c_uint64(block.value + at)
            self.cu.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), inside)
            if (base.value, length.value) != (block.value, size):
                raise AssertionError(f"at {at} the range is {base.value:#x}, {length.value} bytes")

    def fill(self, value):
        self.enter()
        self.cu.cuMemsetD32Async(self.send, ctypes.c_uint(value), size_t(self.count), self.stream)
        self.cu.cuMemsetD32Async(self.receive, ctypes.c_uint(0), size_t(self.count), self.stream)

    def check(self, expected):
        self.enter()
        self.cu.cuStreamSynchronize(self.stream)
        values = (ctypes.c_int32 * self.count)()
        self.cu.cuMemcpyDtoH_v2(values, self.receive, size_t(self.count * 4))
        wrong = sum(1 for value in values if value != expected)
        if wrong:
            raise AssertionError(f"{wrong} of {self.count} sums are wrong")


def all_reduce(nccl, gpus, communicators):
    nccl.ncclGroupStart()
    for gpu, communicator in zip(gpus, communicators):
        gpu.enter()
        nccl.ncclAllReduce(pointer(gpu.send.value), pointer(gpu.receive.value), size_t(gpu.count), INT32, SUM,
                           pointer(communicator), gpu.stream)
    nccl.ncclGroupEnd()


def capture(cu, nccl, gpus, communicators):
    """A graph for each GPU."""
    graphs = []
    for gpu in gpus:
        gpu.enter()
        cu.cuStreamBeginCapture_v2(gpu.stream, RELAXED)
    all_reduce(nccl, gpus, communicators)
    for gpu in gpus:
        graph, executable = pointer(), pointer()
        gpu.enter()
        cu.cuStreamEndCapture(gpu.stream, ctypes.byref(graph))
        cu.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0))
        graphs.append(executable)
    return graphs


def run(name, rounds, gpus, once):
    for i in range(rounds):
        for rank, gpu in enumerate(gpus):
            gpu.fill(i + rank)
        once()
        for gpu in gpus:
            gpu.check(sum(i + rank for rank in range(len(gpus))))
    print(f"{name}: ok, {rounds} rounds on {len(gpus)} GPUs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=40 * MIB)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not os.path.exists("/dev/nvidia0"):
        skip("no /dev/nvidia0")
    try:
        cu, nccl = Library("libcuda.so.1"), Library(find_nccl())
    except OSError as error:
        skip(str(error))
    count = ctypes.c_int()
    cu.cuInit(0)
    cu.cuDeviceGetCount(ctypes.byref(count))
    gpus = [Gpu(cu, ordinal, options.bytes // 4) for ordinal in range(count.value)]
    communicators = (pointer * len(gpus))()
    nccl.ncclCommInitAll(communicators, len(gpus), (ctypes.c_int * len(gpus))(*range(len(gpus))))
    run("plain", options.rounds, gpus, lambda: all_reduce(nccl, gpus, communicators))

    handles = []
    for gpu, communicator in zip(gpus, communicators):
        for buffer in (gpu.send, gpu.receive):
            handle = pointer()
            gpu.enter()
            nccl.ncclCommRegister(pointer(communicator), pointer(buffer.value), size_t(options.bytes),
                                  ctypes.byref(handle))
            handles.append((communicator, handle))
    run("registered", options.rounds, gpus, lambda: all_reduce(nccl, gpus, communicators))

    graphs = capture(cu, nccl, gpus, communicators)

    def launch():
        for gpu, graph in zip(gpus, graphs):
            gpu.enter()
            cu.cuGraphLaunch(graph, gpu.stream)
    run("captured", options.rounds, gpus, launch)
    for communicator, handle in handles:
        nccl.ncclCommDeregister(pointer(communicator), handle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
