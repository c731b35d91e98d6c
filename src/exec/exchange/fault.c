/* Recording a fault, and its line of text: see fault.h. */
#include "exec/exchange/fault.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

size_t hd__fault_record_bytes(int writers) { return sizeof(hd_fault_record) + (size_t)writers * sizeof(hd_fault); }

bool hd__fault_put(hd_fault_record *record, int writer, const hd_fault *fault) {
  unsigned none = 0;
  if (atomic_load(&record->state) != 0)
    return false;
  record->note[writer] = *fault;
  return atomic_compare_exchange_strong(&record->state, &none, (unsigned)writer + 1);
}

bool hd__fault_get(hd_fault *out, const hd_fault_record *record, int writers) {
  const unsigned which = atomic_load_explicit(&record->state, memory_order_acquire);
  if (which == 0)
    return false;
  *out = (hd_fault){.kind = HD_FAULT_GAVE_UP, .rank = -1, .step = -1, .text = "the memory of the ranks is overwritten"};
  if (which <= (unsigned)writers)
    *out = record->note[which - 1];
  out->host[sizeof out->host - 1] = 0;
  out->text[sizeof out->text - 1] = 0;
  return true;
}

void hd__fault_of_end(hd_fault *fault, int end) {
  fault->kind = WIFSIGNALED(end) ? HD_FAULT_SIGNAL : HD_FAULT_EXIT;
  fault->number = WIFSIGNALED(end) ? WTERMSIG(end) : WEXITSTATUS(end);
}

static void describe(char *text, size_t bytes, const hd_fault *f) {
  switch ((hd_fault_kind)f->kind) {
  case HD_FAULT_SIGNAL: snprintf(text, bytes, "was killed by signal %d (%s)", f->number, strsignal(f->number)); break;
  case HD_FAULT_EXIT: snprintf(text, bytes, "ended with exit status %d in the middle of the run", f->number); break;
  case HD_FAULT_GONE:
    snprintf(text, bytes, "ended in the middle of the run, in a way that only its parent can see");
    break;
  case HD_FAULT_STOPPED: snprintf(text, bytes, "is stopped, by SIGSTOP or a debugger,"); break;
  case HD_FAULT_LATE:
    snprintf(text, bytes,
             "is alive, but has not reached a barrier for %d s (if that is expected, raise --stall-timeout)",
             f->number);
    break;
  case HD_FAULT_GAVE_UP: snprintf(text, bytes, "gave up"); break;
  case HD_FAULT_SILENT:
    snprintf(text, bytes,
             "has not been heard from for %d s: its host is down or cut off, or the process hangs (if it is just slow, "
             "raise --stall-timeout)",
             f->number);
    break;
  case HD_FAULT_ENDING: snprintf(text, bytes, "does not answer while the job is being ended"); break;
  case HD_FAULT_CUT: snprintf(text, bytes, "cannot be reached"); break;
  case HD_FAULT_PARENT: break;
  }
}

const char *hd__fault_line(char line[HD_FAULT_LINE_BYTES], const hd_fault *f) {
  char what[160] = "", step[48] = "";
  if (f->kind == HD_FAULT_PARENT) {
    snprintf(line, HD_FAULT_LINE_BYTES, "the process that started the ranks (pid %d on %s) is gone", f->pid, f->host);
    return line;
  }
  describe(what, sizeof what, f);
  if (f->step >= 0)
    snprintf(step, sizeof step, " after step %lld", (long long)f->step);
  snprintf(line, HD_FAULT_LINE_BYTES, "rank %d (pid %d on %s) %s%s%s%s", f->global_rank, f->pid, f->host, what, step,
           f->text[0] ? ": " : "", f->text);
  return line;
}
