/*
 * doctor_machine.c - the driver, its devices, the daemon and its mount.
 */
#include "doctor.h"

#include "connection.h"
#include "mount.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 3000 /* at the mount; a daemon that starts anew has answered by then */

/* ---- the driver ----------------------------------------------------------------------------------------------- */

/* The functions the checks call. Invariant: @count is 0 unless cuInit() succeeded; NULL functions were not found. */
static struct {
    CUresult (*init)(unsigned flags);
    CUresult (*version)(int *version);
    CUresult (*device_count)(int *count);
    CUresult (*device_name)(char *name, int size, CUdevice device);
    CUresult (*device_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
    int count;
} driver;

static bool find_functions(void *library)
{
    /* ISO C has no way from an object pointer to a function; POSIX says it this way. */
    *(void **)&driver.init = dlsym(library, "cuInit");
    *(void **)&driver.version = dlsym(library, "cuDriverGetVersion");
    *(void **)&driver.device_count = dlsym(library, "cuDeviceGetCount");
    *(void **)&driver.device_name = dlsym(library, "cuDeviceGetName");
    *(void **)&driver.device_attribute = dlsym(library, "cuDeviceGetAttribute");
    return driver.init != NULL && driver.version != NULL && driver.device_count != NULL && driver.device_name != NULL &&
           driver.device_attribute != NULL;
}

static void start_driver(struct gm_patient *patient, void *library, const char *path)
{
    int version = 0;
    if (!find_functions(library)) {
        gm_say(patient, GM_PROBLEM, "driver", "%s lacks functions of a CUDA driver: it is not NVIDIA's library", path);
        return;
    }
    bool simulated = dlsym(library, "simcuda_now_ns") != NULL;
    CUresult code = driver.init(0);
    if (code != CUDA_SUCCESS || driver.device_count(&driver.count) != CUDA_SUCCESS) {
        driver.count = 0;
        gm_say(patient, GM_PROBLEM, "driver",
               "%s is there, but does not start: cuInit gives error %d; see that nvidia-smi works for this user", path,
               (int)code);
        return;
    }
    (void)driver.version(&version);
    gm_say(patient, GM_OK, "driver", "%s, CUDA %d.%d%s", path, version / 1000, version % 1000 / 10,
           simulated ? ", simulated" : "");
}

void gm_check_driver(struct gm_patient *patient)
{
    struct gm_mapped mapped;
    bool in_use = gm_patient_mapped(patient, "libcuda.so", 0, &mapped);
    if (patient->subject == GM_SUBJECT_PROCESS && patient->maps != NULL && !in_use) {
        gm_say(patient, GM_NOTE, "driver", "the process has not loaded it: it has not used CUDA yet");
    }
    const char *path = in_use ? mapped.path : "libcuda.so.1";
    /* It stays open: the driver does not survive being unloaded. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && in_use) {
        gm_say(patient, GM_OK, "driver", "%s is loaded in the process; it cannot be opened from here", path);
    } else if (library == NULL) {
        gm_say(patient, GM_PROBLEM, "driver",
               "no libcuda.so.1 is found, so there is no CUDA; install NVIDIA's driver, or try GMLake on the simulated "
               "one: gmlake run --sim");
    } else {
        start_driver(patient, library, path);
    }
}

void gm_check_devices(struct gm_patient *patient)
{
    for (int device = 0; device < driver.count; device++) {
        char name[256] = "unknown";
        int can_map = 0;
        (void)driver.device_name(name, sizeof name, device);
        (void)driver.device_attribute(&can_map, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
        if (can_map) {
            gm_say(patient, GM_OK, "devices", "device %d, %s, has virtual memory management", device, name);
        } else {
            gm_say(patient, driver.count == 1 ? GM_PROBLEM : GM_NOTE, "devices",
                   "device %d, %s, has no virtual memory management: its memory is left to the driver", device, name);
        }
    }
}

/* ---- the daemon ----------------------------------------------------------------------------------------------- */

/* 0 if somebody listens at @address, else -errno. */
static int knock(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    int rc = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? 0 : -errno;
    close(fd);
    return rc;
}

void gm_check_daemon(struct gm_patient *patient)
{
    struct gm_addresses addresses;
    gm_addresses_find(&addresses);
    const struct sockaddr_un *denied = NULL;
    for (unsigned i = 0; i < addresses.count; i++) {
        int rc = knock(&addresses.at[i]);
        if (rc == 0) {
            gm_say(patient, GM_OK, "daemon", "gmlaked answers at %s", addresses.at[i].sun_path);
            return;
        }
        denied = rc == -EACCES ? &addresses.at[i] : denied;
    }
    if (denied != NULL) {
        gm_say(patient, GM_NOTE, "daemon", "%s may not be used by this user; programs are served all the same",
               denied->sun_path);
        return;
    }
    gm_say(patient, GM_NOTE, "daemon",
           "gmlaked does not answer%s%s: programs are served all the same, but cannot be seen or tuned; start gmlaked",
           addresses.count > 0 ? " at " : "", addresses.count > 0 ? addresses.at[addresses.count - 1].sun_path : "");
}

/*
 * Whether a look at the mount does not return in time. A child takes it: while the daemon is stopped, only what kills a
 * program gets it out of there, if at all.
 */
static bool look_hangs(const char *mount)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        char *where;
        (void)gm_mount_locate(mount, &where);
        _exit(0);
    }
    close(pair[1]);
    /* It hangs up when the child has ended. */
    struct pollfd end = {pair[0], POLLIN, 0};
    bool hangs = child > 0 && poll(&end, 1, LOOK_MS) == 0;
    if (hangs) {
        kill(child, SIGKILL);
    }
    close(pair[0]);
    if (child > 0) {
        waitpid(child, NULL, hangs ? WNOHANG : 0);
    }
    return hangs;
}

void gm_check_mount(struct gm_patient *patient)
{
    char *where;
    patient->mount_hangs = look_hangs(patient->mount);
    if (patient->mount_hangs) {
        gm_say(patient, GM_PROBLEM, "mount",
               "%s does not answer: gmlaked is stopped (kill -CONT) or hangs (kill it; the next one takes over)",
               patient->mount != NULL ? patient->mount : "it");
        return;
    }
    int directory = gm_mount_locate(patient->mount, &where);
    if (directory >= 0) {
        gm_say(patient, GM_OK, "mount", "%s", where != NULL ? where : "there");
        close(directory);
    } else if (directory == -ENOTCONN) {
        gm_say(patient, GM_PROBLEM, "mount", "%s was left by a gmlaked that died: umount it, start gmlaked again",
               where != NULL ? where : "it");
    } else {
        gm_say(patient, GM_NOTE, "mount", "gmlaked is not mounted at %s (%s): figures and tunables are not to be had",
               where != NULL ? where : "its place", strerror(-directory));
    }
    free(where);
}
