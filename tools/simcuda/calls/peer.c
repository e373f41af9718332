/*
 * peer.c - access between devices, and copies between contexts. All devices of the machine reach one another.
 */
#include "entry.h"

#include "context.h"

CUresult sim_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    if (can == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_at(device) == NULL || sim_device_at(peer) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    if (value == NULL || (int)attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_at(from) == NULL || sim_device_at(to) == NULL || from == to) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}

/* The current context and the bit of the peer's device in its set. */
static CUresult find_peer(CUcontext peer, struct sim_context **current, uint32_t *bit)
{
    const struct sim_context *found = sim_context_get(peer);
    *current = sim_context_current();
    if (found == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *bit = 1u << found->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    struct sim_context *current;
    uint32_t bit;
    CUresult result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : find_peer(peer, &current, &bit);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (bit == 1u << current->device->ordinal) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    if (current->peers & bit) {
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    }
    current->peers |= bit;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peer)
{
    struct sim_context *current;
    uint32_t bit;
    CUresult result = find_peer(peer, &current, &bit);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!(current->peers & bit)) {
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    }
    current->peers &= ~bit;
    return CUDA_SUCCESS;
}

static CUresult check_contexts(CUcontext to, CUcontext from)
{
    return sim_context_get(to) == NULL || sim_context_get(from) == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult sim_cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
    CUresult result = check_contexts(to_context, from_context);
    return result != CUDA_SUCCESS ? result : sim_cuMemcpyDtoD_v2(to, from, bytes);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                               size_t bytes, CUstream stream)
{
    CUresult result = check_contexts(to_context, from_context);
    return result != CUDA_SUCCESS ? result : sim_cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
