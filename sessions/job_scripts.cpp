// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/shell_quote.h"

namespace piper {
namespace {

/// up PID: does the process live? One that has ended and waits for its parent does not.
constexpr const char* kUp =
    "up() { kill -s 0 \"$1\" 2>/dev/null && ! grep -q '^State:.Z' \"/proc/$1/status\" 2>/dev/null; "
    "}\n";

/// A pattern that pgrep finds in the command line of mpirun, srun and every rank of this job, as a
/// shell word whose own text does not match it.
std::string jobPattern(const std::string& directory) {
    std::string pattern;
    for (const char c : directory) {
        if (std::string_view("\\.[]{}()*+?^$|").find(c) != std::string_view::npos) pattern += '\\';
        pattern += c;
    }
    return "'--jo''b '" + shellQuote(pattern) + "' '";
}

/// Ranks of mpirun on other hosts: ended through ssh, as mpirun started them.
std::string otherHosts(const std::string& directory, const JobRecord& record) {
    std::string script;
    for (const std::string& host : record.hosts)
        script += fmt::format(
            "ssh -o BatchMode=yes -o ConnectTimeout=3 {0} /bin/sh -s <<'END' || {{ echo {0} >&2; "
            "bad=1; }}\n"
            "p={1}; i=0; s=TERM\n"
            "while pgrep -f -- \"$p\" >/dev/null; do\n"
            "  pkill -$s -f -- \"$p\"; sleep 0.1; i=$((i+1))\n"
            "  [ $i -lt 20 ] || s=KILL; [ $i -lt 40 ] || exit 9\n"
            "done\nEND\n",
            shellQuote(host), jobPattern(directory));
    return script;
}

/// Steps of srun that go on on other nodes.
std::string endSteps(const std::string& directory) {
    return fmt::format(
        "steps() {{ squeue -h -s -o '%i %j' 2>/dev/null | awk -v n={} '$2 == n {{ print $1 }}'; "
        "}}\n"
        "i=0; while [ -n \"$(steps)\" ]; do\n"
        "  for s in $(steps); do scancel $s 2>/dev/null; done\n"
        "  [ $i -lt 20 ] || {{ echo \"step $(steps)\" >&2; bad=1; break; }}\n"
        "  sleep 0.2; i=$((i+1))\ndone\n",
        shellQuote(stepName(directory)));
}

std::string cancelSlurm(const JobRecord& record) {
    return fmt::format(
        "j={}\nscancel \"$j\" 2>/dev/null; i=0\n"
        "while squeue -h -j \"$j\" -o %T 2>/dev/null | grep -q .; do\n"
        "  [ $i -ne 25 ] || scancel -s KILL \"$j\" 2>/dev/null\n"
        "  [ $i -lt 48 ] || {{ echo \"Slurm job $j\" >&2; exit 9; }}\n"
        "  sleep 0.2; i=$((i+1))\n"
        "done\n",
        shellQuote(record.slurm_job));
}

}  // namespace

std::string stepName(const std::string& directory) {
    return "piper-" + directory.substr(directory.rfind('/') + 1);
}

std::string cancelScript(const std::string& directory, const JobRecord& record) {
    const std::string begin =
        fmt::format("cd {} || exit 4\n: > {}\n", shellQuote(directory), kCancelledFile);
    if (!record.slurm_job.empty()) return begin + cancelSlurm(record);
    return kUp + begin +
           fmt::format(
               "p={0}; bad=0\n"
               // The script outlives the ranks by the moment in which it writes how they ended.
               "alive() {{\n"
               "  pgrep -f -- \"$p\" >/dev/null && return 0\n"
               "  [ ! -f {1} ] && [ -f {2} ] && up \"$(cat {2})\"\n"
               "}}\n"
               "i=0\n"
               "while [ ! -f {2} ] && [ ! -f {1} ] && [ $i -lt 40 ]; do sleep 0.05; i=$((i+1)); "
               "done\n"
               "for s in TERM KILL; do\n"
               "  pkill -$s -f -- \"$p\"; b=$(date +%s)\n"
               "  while [ $(($(date +%s) - b)) -lt 5 ]; do alive || break 2; sleep 0.05; done\n"
               "done\n",
               jobPattern(directory), kExitStatusFile, kLauncherPidFile) +
           otherHosts(directory, record) +
           (record.launcher == "srun" ? endSteps(directory) : std::string()) +
           "if alive; then hostname >&2; bad=1; fi\n[ $bad -eq 0 ] || exit 9\n";
}

std::string watchScript(const std::string& directory, const JobRecord& record) {
    // Slurm is asked now and then only: every question is work for its controller.
    const std::string queue = record.slurm_job.empty()
                                  ? std::string("q=; w=\n")
                                  : fmt::format(
                                        "  if [ -z \"$e\" ] && [ $((n % 40)) -eq 0 ]; then\n"
                                        "    q=$(squeue -h -j {0} -o '%T (%r)' 2>/dev/null)\n"
                                        "    w=; case $q in PENDING*) w=$(squeue -h -t PD "
                                        "--sort=-p,i -o %i 2>/dev/null |\n"
                                        "      grep -n -x {0} | cut -d: -f1);; esac\n"
                                        "    a=0; [ -z \"$q\" ] || a=1\n"
                                        "  fi\n",
                                        shellQuote(record.slurm_job));
    const std::string alive = record.slurm_job.empty()
                                  ? fmt::format(
                                        "  a=1; if [ -f {0} ]; then up \"$(cat {0})\" || a=0\n"
                                        "  elif [ $n -gt 40 ]; then a=0; fi\n",
                                        kLauncherPidFile)
                                  : std::string();
    return kUp +
           fmt::format(
               "cd {} || exit 4\nn=0; last=; a=1; q=; w=\n"
               "while :; do\n"
               "  e=$(cat {} 2>/dev/null); s=$(cat {} 2>/dev/null | tr '\\n' ' ')\n"
               "  c=0; [ ! -f {} ] || c=1\n{}{}"
               "  [ $a -eq 1 ] || e=$(cat {} 2>/dev/null)\n"  // it may have ended since we looked
               "  t=\"S $s\nE $e\nA $a\nC $c\nQ $q\nP $w\"\n"
               "  if [ \"$t\" != \"$last\" ]; then printf '%s\\n.\\n' \"$t\"; last=$t\n"
               "  elif [ $((n % 40)) -eq 0 ]; then echo .; fi\n"
               "  [ -z \"$e\" ] || exit 0\n  n=$((n+1)); sleep 0.05\n"
               "done\n",
               shellQuote(directory), kExitStatusFile, kStatusFile, kCancelledFile, queue, alive,
               kExitStatusFile);
}

std::string listScript(const std::string& jobs_root) {
    return kUp +
           fmt::format(
               "cd {} 2>/dev/null || exit 0\n"
               "for d in *; do\n"
               "  [ -f \"$d/{}\" ] || continue\n"
               "  e=$(cat \"$d/{}\" 2>/dev/null); s=$(cat \"$d/{}\" 2>/dev/null | tr '\\n' ' ')\n"
               "  c=0; [ ! -f \"$d/{}\" ] || c=1\n"
               "  j=$(sed -n 's/.*\"slurm_job\": \"\\([0-9_]*\\)\".*/\\1/p' \"$d/{}\" "
               "2>/dev/null)\n"
               "  a=1; q=\n"
               "  if [ -n \"$e\" ]; then :\n"
               "  elif [ -n \"$j\" ]; then q=$(squeue -h -j $j -o '%T (%r)' 2>/dev/null); [ -n "
               "\"$q\" ] "
               "|| a=0\n"
               "  elif [ -f \"$d/{}\" ]; then up \"$(cat \"$d/{}\")\" || a=0\n"
               "  elif [ -n \"$(find \"$d/{}\" -mmin +1 2>/dev/null)\" ]; then a=0; fi\n"
               "  [ $a -eq 1 ] || e=$(cat \"$d/{}\" 2>/dev/null)\n"
               "  printf 'N %s\\nS %s\\nE %s\\nA %s\\nC %s\\nQ %s\\n.\\n' \"$d\" \"$s\" \"$e\" $a "
               "$c "
               "\"$q\"\n"
               "done\n",
               shellQuote(jobs_root), kPlanFile, kExitStatusFile, kStatusFile, kCancelledFile,
               kLauncherRecordFile, kLauncherPidFile, kLauncherPidFile, kPlanFile, kExitStatusFile);
}

std::string failureReason(std::string_view log) {
    // Open MPI's words for a node that went away.
    if (const std::size_t lost = log.rfind("Remote daemon:"); lost != std::string_view::npos) {
        const std::string_view line = log.substr(lost, log.find('\n', lost) - lost);
        if (const std::size_t node = line.find("on node "); node != std::string_view::npos)
            return fmt::format("node {} was lost", line.substr(node + 8));
    }
    if (const std::size_t lost = log.rfind("NODE FAILURE"); lost != std::string_view::npos)
        return std::string(log.substr(lost, log.find('\n', lost) - lost));
    // The worker's own sentence, not the launcher's banner around it.
    const std::size_t own = log.rfind("piper-worker:");
    if (own != std::string_view::npos)
        return std::string(log.substr(own, log.find('\n', own) - own));
    const std::size_t end = log.find_last_not_of('\n');
    if (end == std::string_view::npos) return "the log is empty";
    const std::size_t begin = log.rfind('\n', end);
    return std::string(
        log.substr(begin == std::string_view::npos ? 0 : begin + 1, end + 1 - (begin + 1)));
}

}  // namespace piper
