/*
 * device.c - cuDevice*: names, attributes and numbers of the simulated H200s.
 */
#include "device.h"

#include "entry.h"

#include <stdio.h>
#include <string.h>

#define PCI_FORMAT "0000:%02X:00.0"
#define FIRST_BUS  0x10

CUresult sim_cuDeviceGetCount(int *count)
{
    if (count == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count = sim_device_count();
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_at(ordinal) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int length, CUdevice device)
{
    if (name == NULL || length <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_at(device) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(name, (size_t)length, "Simulated H200");
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    if (uuid == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_at(device) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "simcuda", 7);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return sim_cuDeviceGetUuid(uuid, device);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    const struct sim_device *found = sim_device_at(device);
    if (bytes == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (found == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes = found->capacity;
    return CUDA_SUCCESS;
}

static int attribute_value(CUdevice_attribute attribute, CUdevice device)
{
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
        return FIRST_BUS + device;
    }
    const struct {
        CUdevice_attribute attribute;
        int value;
    } rows[] = {
#define SIM_ATTRIBUTE(name, value) {name, value},
#include "attributes.def"
#undef SIM_ATTRIBUTE
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].attribute == attribute) {
            return rows[i].value;
        }
    }
    return 0;
}

CUresult sim_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    if (value == NULL || (int)attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_at(device) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *value = attribute_value(attribute, device);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    if (text == NULL || length <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_at(device) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(text, (size_t)length, PCI_FORMAT, (unsigned)(FIRST_BUS + device));
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    if (device == NULL || text == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < sim_device_count(); i++) {
        char name[32];
        snprintf(name, sizeof name, PCI_FORMAT, (unsigned)(FIRST_BUS + i));
        if (strcasecmp(name, text) == 0) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}
