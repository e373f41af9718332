/*
 * doctor_frameworks.c - whether a framework's own pool stands between the program and GMLake.
 *
 * Of a process, only frameworks whose library it has mapped are judged; of a command, those the user has settings for.
 */
#include "doctor.h"

#include "frameworks.h"

#include <stdlib.h>
#include <string.h>

/* "a value" or "nothing", for sentences about a variable. */
static const char *shown(const char *value)
{
    return value != NULL ? value : "(not set)";
}

static void judge_pytorch(struct gm_patient *patient)
{
    const char *newer = gm_patient_variable(patient, "PYTORCH_ALLOC_CONF");
    const char *name = newer != NULL ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
    const char *value = newer != NULL ? newer : gm_patient_variable(patient, name);
    if (value != NULL && strstr(value, "backend:cudaMallocAsync") != NULL) {
        gm_say(patient, GM_OK, "frameworks", "PyTorch asks for each tensor's memory (%s=%s)", name, value);
    } else if (value != NULL && strstr(value, "expandable_segments:True") != NULL) {
        gm_say(patient, GM_PROBLEM, "frameworks",
               "PyTorch maps its segments itself (%s=%s), so GMLake is not asked: take that out, or set "
               "backend:cudaMallocAsync",
               name, value);
    } else if (gm_patient_variable(patient, "PYTORCH_NO_CUDA_MEMORY_CACHING") != NULL) {
        gm_say(patient, GM_OK, "frameworks",
               "PyTorch asks for each tensor's memory, and waits for the device at each free "
               "(PYTORCH_NO_CUDA_MEMORY_CACHING)");
    } else {
        gm_say(patient, GM_NOTE, "frameworks",
               "PyTorch's own allocator is on top (%s=%s): its segments are served, what it wastes inside them is not "
               "GMLake's to save; gmlake run without --native sets backend:cudaMallocAsync",
               name, shown(value));
    }
}

static void judge_jax(struct gm_patient *patient)
{
    const char *allocator = gm_patient_variable(patient, "XLA_PYTHON_CLIENT_ALLOCATOR");
    const char *preallocate = gm_patient_variable(patient, "XLA_PYTHON_CLIENT_PREALLOCATE");
    bool on_demand = preallocate != NULL && (strcmp(preallocate, "false") == 0 || strcmp(preallocate, "0") == 0);
    if (allocator != NULL && strcmp(allocator, "platform") == 0) {
        gm_say(patient, GM_OK, "frameworks",
               "JAX asks for each buffer's memory, and waits for the device at each free "
               "(XLA_PYTHON_CLIENT_ALLOCATOR=platform)");
    } else if (allocator == NULL || strcmp(allocator, "cuda_async") != 0) {
        gm_say(patient, on_demand ? GM_NOTE : GM_PROBLEM, "frameworks",
               "JAX's own allocator is on top (XLA_PYTHON_CLIENT_ALLOCATOR=%s)%s: set it to cuda_async, as gmlake run "
               "does",
               shown(allocator), on_demand ? "" : " and takes three quarters of the device at the start");
    } else if (!on_demand) {
        gm_say(
            patient, GM_NOTE, "frameworks",
            "JAX takes three quarters of the device at the start (XLA_PYTHON_CLIENT_PREALLOCATE=%s): set it to false",
            shown(preallocate));
    } else {
        gm_say(patient, GM_OK, "frameworks",
               "JAX asks for each buffer's memory (XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async)");
    }
}

static void judge_tensorflow(struct gm_patient *patient)
{
    const char *allocator = gm_patient_variable(patient, "TF_GPU_ALLOCATOR");
    if (allocator != NULL && strcmp(allocator, "cuda_malloc_async") == 0) {
        gm_say(patient, GM_OK, "frameworks", "TensorFlow asks for each tensor's memory (TF_GPU_ALLOCATOR=%s)",
               allocator);
    } else {
        gm_say(patient, GM_PROBLEM, "frameworks",
               "TensorFlow's own allocator is on top (TF_GPU_ALLOCATOR=%s) and takes most of the device at the start: "
               "set it to cuda_malloc_async, as gmlake run does",
               shown(allocator));
    }
}

/* By @library a process is known to use the framework. */
static const struct {
    const char *framework; /* as in frameworks.def */
    const char *library;
    void (*judge)(struct gm_patient *patient);
} frameworks[] = {
    {"PyTorch", "libtorch_cuda.so", judge_pytorch},
    {"JAX", "xla_cuda_plugin.so", judge_jax},
    {"TensorFlow", "libtensorflow_framework.so", judge_tensorflow},
};

/* Whether the environment differs, for @framework, from what `gmlake run` sets where nothing is set. */
static bool user_decided(const struct gm_patient *patient, const char *framework)
{
    for (const struct gm_framework_setting *row = gm_framework_settings; row->framework != NULL; row++) {
        const char *value = gm_patient_variable(patient, row->variable);
        if (strcmp(row->framework, framework) == 0 && (value == NULL || strcmp(value, row->value) != 0)) {
            return true;
        }
    }
    return false;
}

void gm_check_frameworks(struct gm_patient *patient)
{
    if (patient->environment == NULL) {
        if (patient->subject == GM_SUBJECT_PROCESS) {
            gm_say(patient, GM_NOTE, "frameworks",
                   "the environment of the process cannot be read; ask as its user or as root");
        }
        return;
    }
    unsigned told = 0;
    for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++) {
        struct gm_mapped library;
        if (patient->subject == GM_SUBJECT_COMMAND ? user_decided(patient, frameworks[i].framework)
                                                   : gm_patient_mapped(patient, frameworks[i].library, 0, &library)) {
            frameworks[i].judge(patient);
            told++;
        }
    }
    if (patient->subject == GM_SUBJECT_COMMAND && told == 0) {
        gm_say(patient, GM_OK, "frameworks", "gmlake run has PyTorch, JAX and TensorFlow ask for each tensor's memory");
    }
}
