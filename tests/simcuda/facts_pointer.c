/*
 * facts_pointer.c - questions about pointers and sharing, on one piece of each kind of memory.
 */
#include "facts.h"

#include <unistd.h>

/* A value without what differs from run to run. */
static const char *shown(CUpointer_attribute attribute, unsigned long long value, CUdeviceptr address)
{
    static char texts[2][32];
    static unsigned turn;
    char *text = texts[turn++ % 2];
    bool hidden = attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ||
                  attribute == CU_POINTER_ATTRIBUTE_CONTEXT || attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    if (value != 0 && value == address) {
        snprintf(text, sizeof texts[0], "itself");
    } else if (!hidden && value < 1ull << 33) {
        snprintf(text, sizeof texts[0], "%d", (int)value);
    } else {
        snprintf(text, sizeof texts[0], value == 0 ? "0" : "set");
    }
    return text;
}

/* How many bytes the plural form writes. */
static int width(CUpointer_attribute attribute, CUdeviceptr address)
{
    unsigned char low[16];
    unsigned char high[16];
    void *into_low[] = {low};
    void *into_high[] = {high};
    memset(low, 0x55, sizeof low);
    memset(high, 0xaa, sizeof high);
    cu.cuPointerGetAttributes(1, &attribute, into_low, address);
    cu.cuPointerGetAttributes(1, &attribute, into_high, address);
    int bytes = 0;
    for (int i = 0; i < 16; i++) {
        bytes = low[i] == high[i] ? i + 1 : bytes;
    }
    return bytes;
}

static void all_attributes(CUdeviceptr address, const char *kind)
{
    facts_heading(kind);
    for (int i = 1; i <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++) {
        if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS) {
            continue; /* depends on the machine's kernel drivers */
        }
        unsigned long long one = 0;
        unsigned long long many = 0;
        CUpointer_attribute attribute = (CUpointer_attribute)i;
        void *data[] = {&many};
        int first = (int)cu.cuPointerGetAttribute(&one, attribute, address);
        int second = (int)cu.cuPointerGetAttributes(1, &attribute, data, address);
        printf("attribute %-2d: %d %s, %d %s, %d bytes\n", i, first, shown(attribute, one, address), second,
               shown(attribute, many, address), width(attribute, address));
    }
}

static void pointers(CUdeviceptr plain, CUdeviceptr pooled, CUdeviceptr range)
{
    static char mine[64];
    unsigned on = 1;
    void *pinned_bytes;
    CUmemGenericAllocationHandle handle;
    CUipcMemHandle ipc;
    CUdeviceptr opened;
    all_attributes(plain + 512, "attributes of plain memory");
    all_attributes(pooled + 512, "attributes of stream-ordered memory");
    all_attributes(range + 512, "attributes of mapped memory");
    all_attributes(range + 4 * PAGE, "attributes of reserved memory, not mapped");
    all_attributes((CUdeviceptr)(uintptr_t)mine, "attributes of unknown memory");
    all_attributes(0, "attributes of NULL");
    cu.cuMemAllocHost_v2(&pinned_bytes, 4096);
    all_attributes((CUdeviceptr)(uintptr_t)pinned_bytes, "attributes of page-locked host memory");
    facts_heading("other questions about pointers");
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pooled));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)(uintptr_t)pinned_bytes));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, plain));
    unsigned memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pooled));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    on = 0;
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    FACT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)plain));
    FACT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)pooled));
    FACT(cuIpcGetMemHandle(&ipc, pooled));
    FACT(cuIpcGetMemHandle(&ipc, range));
    FACT(cuIpcGetMemHandle(&ipc, plain + 512));
    FACT(cuIpcGetMemHandle(&ipc, plain));
    FACT(cuIpcOpenMemHandle_v2(&opened, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    FACT(cuIpcCloseMemHandle(plain));
    FACT(cuMemFreeHost(pinned_bytes));
}

static void sharing(CUdeviceptr plain, CUdeviceptr range, CUmemGenericAllocationHandle chunk)
{
    int descriptor = -1;
    CUmemGenericAllocationHandle same = 0;
    const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const CUmemRangeHandleType dma = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    facts_heading("sharing");
    FACT(cuMemExportToShareableHandle(&descriptor, chunk, CU_MEM_HANDLE_TYPE_NONE, 0));
    FACT(cuMemExportToShareableHandle(&descriptor, chunk, type, 0));
    FACT(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)descriptor, type));
    NUMBER("the same handle", same == chunk);
    FACT(cuMemRelease(same));
    FACT(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)range));
    NUMBER("the same handle", same == chunk);
    FACT(cuMemRelease(same));
    FACT(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)0, type));
    close(descriptor);
    FACT(cuMemGetHandleForAddressRange(&descriptor, plain, PAGE, dma, 0));
    close(descriptor);
    FACT(cuMemGetHandleForAddressRange(&descriptor, range, 2 * PAGE, dma, 0));
    close(descriptor);
    FACT(cuMemGetHandleForAddressRange(&descriptor, range, 4 * PAGE, dma, 0));
    FACT(cuMemGetHandleForAddressRange(&descriptor, range, 0, dma, 0));
    FACT(cuMemGetHandleForAddressRange(&descriptor, 0x1000, PAGE, dma, 0));
}

void facts_pointers(void)
{
    CUdeviceptr plain;
    CUdeviceptr pooled;
    CUdeviceptr range;
    CUmemGenericAllocationHandle chunk;
    CUmemAllocationProp properties = facts_pinned(0);
    CUmemAccessDesc write = facts_open_for(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    properties.allocFlags.gpuDirectRDMACapable = 1;
    cu.cuMemAlloc_v2(&plain, 3 * PAGE);
    cu.cuMemAllocAsync(&pooled, 3 * PAGE, NULL);
    cu.cuMemAddressReserve(&range, 32 * PAGE, 0, 0, 0);
    cu.cuMemCreate(&chunk, PAGE, &properties, 0);
    for (size_t i = 0; i < 3; i++) {
        cu.cuMemMap(range + i * PAGE, PAGE, 0, chunk, 0);
    }
    cu.cuMemSetAccess(range, 3 * PAGE, &write, 1);
    pointers(plain, pooled, range);
    sharing(plain, range, chunk);
    cu.cuMemFree_v2(plain);
    cu.cuMemFree_v2(pooled);
    cu.cuMemUnmap(range, 3 * PAGE);
    cu.cuMemRelease(chunk);
    cu.cuMemAddressFree(range, 32 * PAGE);
}
