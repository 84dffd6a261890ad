// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/sha256.h"
#include "sessions/shell_quote.h"
#include "sessions/slurm.h"

namespace piper {
namespace {

/// up PID: does the process live? One that has ended and waits for its parent does not.
/// rd FILE: v is its text, each line end a blank; nothing where there is none. Both start no
/// process: scripts that watch do this many times a second on a log-in node.
constexpr const char* kShellFunctions = R"sh(
up() {
  kill -s 0 "$1" 2>/dev/null || return 1
  while read -r _k _l; do
    case $_k in State:) case $_l in Z*) return 1 ;; esac; return 0 ;; esac
  done 2>/dev/null < "/proc/$1/status"
  return 0
}
rd() {
  v=
  while IFS= read -r _l || [ -n "$_l" ]; do v="$v$_l "; done 2>/dev/null < "$1"
}
)sh";

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

/// Without them nothing is ended, and nothing seen that is left.
constexpr const char* kNeedsPkill =
    "command -v pgrep >/dev/null && command -v pkill >/dev/null || {\n"
    "  echo 'it has no pgrep and pkill (Debian: procps)' >&2; exit 8\n}\n";

/// Ranks of mpirun on other hosts: ended through ssh, as mpirun started them.
std::string otherHosts(const std::string& directory, const JobRecord& record) {
    std::string script;
    for (const std::string& host : record.hosts)
        script += fmt::format(
            "ssh -o BatchMode=yes -o ConnectTimeout=3 {0} /bin/sh -s <<'END' || {{ echo {0} >&2; "
            "bad=1; }}\n"
            "{2}p={1}; i=0; s=TERM\n"
            "while pgrep -f -- \"$p\" >/dev/null; do\n"
            "  pkill -$s -f -- \"$p\"; sleep 0.1; i=$((i+1))\n"
            "  [ $i -lt 20 ] || s=KILL; [ $i -lt 40 ] || exit 9\n"
            "done\nEND\n",
            shellQuote(host), jobPattern(directory), kNeedsPkill);
    return script;
}

}  // namespace

std::string stepName(const std::string& directory) {
    // Directories of the same name under two roots are two jobs.
    Sha256 hash;
    hash.add(directory);
    return "piper-" + jobName(directory) + "-" + hash.take().substr(0, 8);
}

std::string cancelScript(const std::string& directory, const JobRecord& record) {
    const std::string cd = fmt::format("cd {} || exit 4\n", shellQuote(directory));
    // A job that has ended stays what it is; what it left alive is ended all the same.
    const std::string begin = fmt::format("[ -s {} ] || : > {}\n", kExitStatusFile, kCancelledFile);
    if (!record.slurm_job.empty())  // of one that has ended, the number may be another job's by now
        return cd +
               fmt::format("[ ! -s {} ] && [ ! -s {} ] || exit 0\n", kExitStatusFile,
                           kSlurmEndFile) +
               begin + std::string(slurmFunctions()) + cancelSlurmJob(record.slurm_job);
    const std::string steps =
        record.launcher == "srun" ? cancelSlurmSteps(stepName(directory)) : std::string();
    return kShellFunctions + cd + kNeedsPkill + begin + "bad=0\n" + steps +
           fmt::format(
               "p={0}\n"
               // The script outlives the ranks by the moment in which it writes how they ended.
               "alive() {{\n"
               "  pgrep -f -- \"$p\" >/dev/null && return 0\n"
               "  [ ! -f {1} ] && [ -f {2} ] && rd {2} && up \"${{v%% *}}\"\n"
               "}}\n"
               "i=0\n"
               "while [ ! -f {2} ] && [ ! -f {1} ] && [ $i -lt 40 ]; do sleep 0.05; i=$((i+1)); "
               "done\n"
               "for s in TERM KILL; do\n"
               "  pkill -$s -f -- \"$p\"; b=$(date +%s)\n"
               "  while [ $(($(date +%s) - b)) -lt 5 ]; do alive || break 2; sleep 0.05; done\n"
               "done\n",
               jobPattern(directory), kExitStatusFile, kLauncherPidFile) +
           otherHosts(directory, record) + steps +
           "if alive; then hostname >&2; bad=1; fi\n[ $bad -eq 0 ] || exit 9\n";
}

std::string watchScript(const std::string& directory, const JobRecord& record) {
    // Slurm is asked now and then only: every question is work for its controller.
    const std::string alive =
        record.slurm_job.empty()
            ? fmt::format(
                  "  a=1; if [ -f {0} ]; then rd {0}; up \"${{v%% *}}\" || a=0\n"
                  "  elif [ $n -gt 40 ]; then a=0; fi\n",
                  kLauncherPidFile)
            : fmt::format(
                  "  if [ -z \"$e\" ] && [ $n -ge $next ]; then\n"
                  "    look {0}; next=$((n+200)); case $q in PENDING*) next=$((n+40)) ;; esac\n"
                  "    [ $a -eq 1 ] || ended {0}\n  fi\n",
                  shellQuote(record.slurm_job));
    const std::string functions =
        record.slurm_job.empty() ? std::string() : std::string(slurmFunctions());
    return kShellFunctions + functions +
           fmt::format(
               "cd {} || exit 4\nn=0; next=0; last=; a=1; q=; w=; b=\n"
               "while :; do\n"
               "  rd {}; e=$v; rd {}; s=$v\n"
               "  c=0; [ ! -f {} ] || c=1\n{}"
               "  [ $a -eq 1 ] || {{ rd {}; e=$v; }}\n"  // it may have ended since we looked
               "  t=\"S $s\nE $e\nA $a\nC $c\nQ $q\nP $w\nB $b\"\n"
               "  if [ \"$t\" != \"$last\" ]; then printf '%s\\n.\\n' \"$t\"; last=$t\n"
               "  elif [ $((n % 40)) -eq 0 ]; then echo .; fi\n"
               "  [ -z \"$e\" ] || exit 0\n  n=$((n+1)); sleep 0.05\n"
               "done\n",
               shellQuote(directory), kExitStatusFile, kStatusFile, kCancelledFile, alive,
               kExitStatusFile);
}

std::string listScript(const std::string& jobs_root) {
    return kShellFunctions + std::string(slurmFunctions()) +
           fmt::format(
               "cd {0} 2>/dev/null || exit 0\nall=\n"
               "for d in *; do\n"
               "  [ -f \"$d/{1}\" ] && cd \"./$d\" || continue\n"
               "  rd {2}; e=$v; rd {3}; s=$v\n"
               "  c=0; [ ! -f {4} ] || c=1\n"
               "  j=$(sed -n 's/.*\"slurm_job\": \"\\([0-9_]*\\)\".*/\\1/p' {5} 2>/dev/null)\n"
               "  a=1; q=; w=; b=\n"
               "  if [ -n \"$e\" ]; then :\n"
               "  elif [ -z \"$j\" ] && grep -q '\"launcher\": \"sbatch\"' {5} 2>/dev/null; then\n"
               "    adopt || q='UNKNOWN (Slurm does not answer)'\n"
               "  fi\n"
               "  if [ -n \"$e\" ]; then :\n"
               "  elif [ -n \"$j\" ]; then\n"
               "    if [ -s {6} ]; then a=0; else look \"$j\"; [ $a -eq 1 ] || ended \"$j\"; fi\n"
               "  elif [ -f {7} ]; then rd {7}; up \"${{v%% *}}\" || a=0\n"
               "  elif [ -n \"$q\" ]; then :\n"
               "  elif [ -n \"$(find {1} -mmin +1 2>/dev/null)\" ]; then a=0; fi\n"
               "  [ $a -eq 1 ] || {{ rd {2}; e=$v; }}\n"
               "  printf 'N %s\\nS %s\\nE %s\\nA %s\\nC %s\\nQ %s\\nP %s\\nB %s\\n' "
               "\"$d\" \"$s\" \"$e\" $a $c \"$q\" \"$w\" \"$b\"\n"
               "  case $a:$c:$e in *:1:* | 1:0: | *:0:0*) ;; *)\n"
               "    [ -n \"$e\" ] || [ ! -s {6} ] || echo \"Z $(cat {6})\"\n"
               "    tail -c 100000 {8} 2>/dev/null | grep -E -o 'DUE TO [A-Z ]+|Node failure on "
               "[^ ]+|oom[-_]kill event|Remote daemon:.* on node .*|"
               "piper: [^ ]+ cannot be reached: .*' |\n      tail -n 5 | sed "
               "'s/^/L /' ;;\n"
               "  esac\n  echo .\n"
               "  cd ..\n"
               "done\n",
               shellQuote(jobs_root), kPlanFile, kExitStatusFile, kStatusFile, kCancelledFile,
               kLauncherRecordFile, kSlurmEndFile, kLauncherPidFile, kLogFile);
}

namespace {

/// The first host that reach.sh says of why it cannot be reached.
std::optional<std::string> unreachedHost(std::string_view log) {
    for (std::size_t at = log.find(kReachSays); at != std::string_view::npos;
         at = log.find(kReachSays, at + 1)) {
        const std::string_view line =
            log.substr(at, std::min(log.find('\n', at), log.size()) - at).substr(kReachSays.size());
        const std::size_t host_ends = line.find(' ');
        if (host_ends != std::string_view::npos &&
            line.substr(host_ends).starts_with(kCannotBeReached))
            return std::string(line);
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> launcherEnding(std::string_view log) {
    // Open MPI's words for a node that went away.
    if (const std::size_t lost = log.rfind("Remote daemon:"); lost != std::string_view::npos) {
        const std::string_view line = log.substr(lost, log.find('\n', lost) - lost);
        if (const std::size_t node = line.find("on node "); node != std::string_view::npos)
            return fmt::format("node {} was lost", line.substr(node + 8));
    }
    if (std::optional<std::string> host = unreachedHost(log)) return host;
    return slurmEndingInLog(log);
}

std::string failureReason(std::string_view log) {
    if (std::optional<std::string> ending = launcherEnding(log)) return *std::move(ending);
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
