/*
 * start.c - cuInit, versions, error texts and the look-up of functions.
 */
#include "entry.h"

#include "context.h"
#include "device.h"
#include "pool.h"

#include <string.h>

#define DRIVER_VERSION 13000

CUresult sim_cuInit(unsigned int flags)
{
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_initialised()) {
        return CUDA_SUCCESS;
    }
    if (sim_forked()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (!sim_device_start() || !sim_context_start() || !sim_pool_start()) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_set_initialised();
    return CUDA_SUCCESS;
}

CUresult sim_cuDriverGetVersion(int *version)
{
    if (version == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult code;
    const char *name;
    const char *text;
} errors[] = {
#define SIM_ERROR(name, text) {name, #name, text},
#include "errors.def"
#undef SIM_ERROR
};

CUresult sim_cuGetErrorName(CUresult error, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == error) {
            *name = errors[i].name;
            return CUDA_SUCCESS;
        }
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == error) {
            *text = errors[i].text;
            return CUDA_SUCCESS;
        }
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- look-up ---- */

/* The newest form of @name that @version knows; *known says whether any version has it. */
static const struct sim_row *find_row(const char *name, int version, bool *known)
{
    const struct sim_row *best = NULL;
    *known = false;
    for (size_t i = 0; i < SIM_FUNCTION_COUNT; i++) {
        const struct sim_row *row = &sim_rows[i];
        if (strcmp(row->base, name) != 0) {
            continue;
        }
        *known = true;
        if (row->since <= version && (best == NULL || row->since > best->since)) {
            best = row;
        }
    }
    return best;
}

static CUresult look_up(const char *name, void **address, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t both = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (name == NULL || address == NULL || version > DRIVER_VERSION || (flags & ~both) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool known;
    const struct sim_row *row = find_row(name, version, &known);
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *address = NULL;
    if (row != NULL) {
        sim_address *chosen = per_thread && row->per_thread != NULL ? row->per_thread : row->address;
        memcpy(address, &chosen, sizeof chosen);
    }
    *status = row != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
              : known     ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult result = look_up(name, address, version, flags, &status);
    if (result == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS) {
        return CUDA_ERROR_NOT_FOUND;
    }
    return result;
}

CUresult sim_cuGetProcAddress_v2(const char *name, void **address, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult ignored;
    return look_up(name, address, version, flags, status == NULL ? &ignored : status);
}

/*
 * The private tables between NVIDIA's runtime and its driver. They include a test that the driver is NVIDIA's own,
 * which this one is not and does not pretend to be (README.md, "The CUDA runtime"), so there are none.
 */
CUresult sim_cuGetExportTable(const void **table, const CUuuid *id)
{
    if (table == NULL || id == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
