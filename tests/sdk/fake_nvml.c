/* A driver's library as far as the SDK calls it: GPUs 0 and 2 are whole, GPU 1 has the MIG instances 1 and 2, GPU 3 may not be
   opened. A file named by FAKE_NVML holds "busy power memory_mib pid now_us" of GPU 0, whose clock goes on by a second at each
   reading where now_us is 0; GPU 2 is always idle. FAKE_NVML_USES "pid:percent,pid:percent" are processes that used GPU 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SUPPORTED 3
#define NO_PERMISSION 4
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define VERSION_MISMATCH 25

typedef struct { int index, gpu_instance; char uuid[64]; } device_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned long long time_us; union { double d; unsigned u; unsigned long long l; } value; } sample_t;
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } process_t;
typedef struct { unsigned pid; unsigned long long time_us; unsigned sm, memory, encoder, decoder; } use_t;
typedef struct { unsigned gpu_instance; unsigned long long busy; unsigned is_read; } counters_t;
typedef struct { unsigned metric; int returned; double value; struct { char *a, *b, *c; } info; } metric_t;
typedef struct { unsigned version, count; counters_t *before, *after; metric_t metrics[98]; } metrics_t;
typedef struct { unsigned version, is_supported; } support_t;

static device_t gpus[4] = {
  {0, -1, "GPU-aaaa0000-0000-0000-0000-000000000000"}, {1, -1, "GPU-bbbb1111-0000-0000-0000-000000000000"},
  {2, -1, "GPU-aaaa2222-0000-0000-0000-000000000000"}, {3, -1, "GPU-dddd3333-0000-0000-0000-000000000000"}};
static device_t mig_devices[2] = {
  {1, 1, "MIG-11111111-0000-0000-0000-000000000000"}, {1, 2, "MIG-22222222-0000-0000-0000-000000000000"}};
static unsigned long long now_us = 1000000;
static unsigned long long instance_busy;

static unsigned long long state(unsigned *busy, unsigned *power, unsigned *memory, unsigned *pid) {
  FILE *file = fopen(getenv("FAKE_NVML"), "r");
  unsigned long long at_us = 0;
  *busy = *power = *memory = *pid = 0;
  if (file) { if (fscanf(file, "%u %u %u %u %llu", busy, power, memory, pid, &at_us) != 5) abort(); fclose(file); }
  return at_us;
}

int nvmlInit_v2(void) { return getenv("FAKE_NVML_NO_DRIVER") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t **found) {
  if (index > 3) return 2;
  if (index == 3) return NO_PERMISSION;
  *found = &gpus[index];
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, device_t **found) {
  for (int i = 0; i < 4; i++) if (!strcmp(uuid, gpus[i].uuid)) { *found = &gpus[i]; return 0; }
  for (int i = 0; i < 2; i++) if (!strcmp(uuid, mig_devices[i].uuid)) { *found = &mig_devices[i]; return 0; }
  return NOT_FOUND;
}
int nvmlDeviceGetIndex(device_t *gpu, unsigned *index) { *index = gpu->index; return 0; }
int nvmlDeviceGetUUID(device_t *gpu, char *text, unsigned size) {
  if (size < strlen(gpu->uuid) + 1) return INSUFFICIENT_SIZE;
  strcpy(text, gpu->uuid);
  return 0;
}
int nvmlDeviceGetMigMode(device_t *gpu, unsigned *now, unsigned *pending) {
  if (gpu->gpu_instance >= 0 || gpu->index == 2) return NOT_SUPPORTED;
  *now = *pending = gpu->index == 1;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(device_t *gpu, unsigned *count) { (void)gpu; *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(device_t *gpu, unsigned place, device_t **found) {
  if (gpu->index != 1 || place > 1) return NOT_FOUND;
  *found = &mig_devices[place];
  return 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t *gpu_instance, device_t **found) {
  if (gpu_instance->gpu_instance < 0) return NOT_SUPPORTED;
  *found = &gpus[gpu_instance->index];
  return 0;
}
int nvmlDeviceGetGpuInstanceId(device_t *gpu_instance, unsigned *number) {
  if (gpu_instance->gpu_instance < 0) return NOT_SUPPORTED;
  *number = gpu_instance->gpu_instance;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device_t *gpu, unsigned *count, process_t *found) {
  unsigned busy, power, memory, pid;
  state(&busy, &power, &memory, &pid);
  unsigned there = gpu->index == 0 ? 1 : 0;
  if (*count < there || (there && !found)) { *count = there; return INSUFFICIENT_SIZE; }
  *count = there;
  if (there) { memset(found, 0, sizeof *found); found->pid = pid; }
  return 0;
}
int nvmlDeviceGetProcessUtilization(device_t *gpu, use_t *found, unsigned *count, unsigned long long since) {
  const char *text = getenv("FAKE_NVML_USES");
  if (gpu->gpu_instance >= 0) return NOT_SUPPORTED;
  if (gpu->index != 0 || !text) return NOT_FOUND;
  unsigned there = 0, pid, percent;
  for (const char *at = text; at && sscanf(at, "%u:%u", &pid, &percent) == 2; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    if (found && there < *count) found[there] = (use_t){pid, since + 1, percent, 9, 9, 9};
    there++;
  }
  if (!found || *count < there) { *count = there; return INSUFFICIENT_SIZE; }
  *count = there;
  return 0;
}
/* A driver keeps a reading of each fifth or sixth of a second: here there are two new ones each time, around the mean. */
int nvmlDeviceGetSamples(device_t *gpu, int kind, unsigned long long since, unsigned *type, unsigned *count, sample_t *found) {
  unsigned busy, power, memory, pid;
  unsigned long long at_us = state(&busy, &power, &memory, &pid);
  if (gpu->gpu_instance >= 0 || gpu->index == 2 || kind != 1) return NOT_SUPPORTED;
  *type = 1;
  unsigned kept = getenv("FAKE_NVML_KEEPS") ? atoi(getenv("FAKE_NVML_KEEPS")) : 71;
  if (!found) { *count = kept; return 0; }
  if (*count < kept) return INSUFFICIENT_SIZE;
  now_us = at_us ? at_us : now_us + 1000000;
  unsigned there = 0;
  for (unsigned i = 0; i < 2; i++) {
    unsigned long long at = now_us - 500000 * i;
    if (at <= since) continue;
    memset(&found[there], 0xff, sizeof *found); /* what a union's other half holds is anybody's guess */
    found[there].time_us = at;
    found[there].value.u = busy + (i ? 10 : -10);
    there++;
  }
  *count = there;
  return there ? 0 : NOT_FOUND;
}
int nvmlDeviceGetUtilizationRates(device_t *gpu, utilization_t *found) {
  if (gpu->gpu_instance >= 0) return NOT_SUPPORTED;
  found->gpu = gpu->index == 2 ? 0 : 100;
  found->memory = 7;
  return 0;
}
/* The first version counts the driver's own memory as used, the second one does not. */
int nvmlDeviceGetMemoryInfo(device_t *gpu, memory_t *found) {
  unsigned busy, power, memory, pid;
  state(&busy, &power, &memory, &pid);
  found->total = 80ull << 30;
  found->used = gpu->index == 0 ? (unsigned long long)(memory + 615) << 20 : gpu->gpu_instance >= 0 ? 512ull << 20 : 0;
  found->free = found->total - found->used;
  return 0;
}
int nvmlDeviceGetMemoryInfo_v2(device_t *gpu, memory_v2_t *found) {
  memory_t first;
  if (getenv("FAKE_NVML_OLD")) return NOT_SUPPORTED;
  if (found->version != (sizeof *found | 2 << 24)) return VERSION_MISMATCH;
  nvmlDeviceGetMemoryInfo(gpu, &first);
  found->total = first.total;
  found->free = first.free;
  found->reserved = gpu->index == 0 ? 615ull << 20 : 0;
  found->used = first.used - found->reserved;
  return 0;
}
int nvmlDeviceGetPowerUsage(device_t *gpu, unsigned *milliwatts) {
  unsigned busy, power, memory, pid;
  state(&busy, &power, &memory, &pid);
  if (gpu->gpu_instance >= 0) return NOT_SUPPORTED;
  *milliwatts = gpu->index == 0 ? power * 1000 : 60500;
  return 0;
}
int nvmlGpmQueryDeviceSupport(device_t *gpu, support_t *found) {
  if (found->version != 1) return VERSION_MISMATCH;
  found->is_supported = gpu->index == 1 && !getenv("FAKE_NVML_OLD");
  return 0;
}
int nvmlGpmSampleAlloc(counters_t **found) { *found = calloc(1, sizeof **found); return 0; }
int nvmlGpmMigSampleGet(device_t *gpu, unsigned gpu_instance, counters_t *counters) {
  if (gpu->index != 1 || (gpu_instance != 1 && gpu_instance != 2)) return NOT_FOUND;
  instance_busy += 25 * gpu_instance;
  *counters = (counters_t){gpu_instance, instance_busy, 1};
  return 0;
}
int nvmlGpmMetricsGet(metrics_t *asked) {
  if (asked->version != 1) return VERSION_MISMATCH;
  if (!asked->before->is_read || !asked->after->is_read || asked->before->gpu_instance != asked->after->gpu_instance) return 2;
  for (unsigned i = 0; i < asked->count; i++) {
    asked->metrics[i].returned = asked->metrics[i].metric == 1 ? 0 : NOT_SUPPORTED;
    asked->metrics[i].value = asked->after->busy > asked->before->busy ? 25.0 * asked->after->gpu_instance : -1.0;
    asked->metrics[i].info.a = "GRAPHICS_UTIL";
  }
  return 0;
}
