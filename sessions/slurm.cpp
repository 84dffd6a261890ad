// SPDX-License-Identifier: Apache-2.0
#include "sessions/slurm.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/script_launcher.h"
#include "sessions/shell_quote.h"

namespace piper {
namespace {

// Slurm's commands wait 20 s and more for a controller that is away: they are given up after 3.
constexpr std::string_view kFunctions = R"sh(
# Every job of the user's, asked for once in a list.
everything() {
  [ -n "$all" ] || { all=$(timeout 3 squeue -h -u "$(id -un)" -o "$f" 2>&1); all_x=$?; all="$all
."; }
}
f='%i %T (%r)|%P|%S|%j'
# r: what squeue says of JOB; x: its exit status. In a list, where `all` is set, it is asked once.
ask() {
  if [ -z "${all+set}" ]; then
    r=$(timeout 3 squeue -h -j "$1" -o "$f" 2>&1); x=$?
  else
    everything; r=$all; x=$all_x
  fi
  [ $x -ne 0 ] || r=$(printf '%s\n' "$r" | sed -n "s/^$1 //p" | tail -n 1)  # without its warnings
}
# w: the place of JOB among those that wait in PARTITION, or in each of "PARTITION,PARTITION".
place() {
  if [ -z "${all+set}" ]; then
    p=$(timeout 3 squeue -h -P -t PD -p "$2" --sort=-p,i -o "%P %i" 2>/dev/null)
  else
    [ -n "$waiting" ] || waiting="$(timeout 3 squeue -h -P -t PD --sort=-p,i -o "%P %i" 2>/dev/null)
."
    p=$waiting
  fi
  w=$(printf '%s\n' "$p" | awk -v j="$1" '{ n[$1]++ } $2 == j { k++; one = n[$1]
    many = many (k > 1 ? ", " : "") n[$1] " of " $1 } END { print (k > 1 ? many : one) }')
}
note() {
  sed "s/\"slurm_job\": \"\"/\"slurm_job\": \"$1\"/" launcher.json > launcher.json.$$.part &&
    mv launcher.json.$$.part launcher.json
}
adopt() {
  j=; n=$(sed -n 's/^#SBATCH --job-name=//p' launch.sh 2>/dev/null | head -n 1)
  [ -n "$n" ] || return 0
  if [ -z "${all+set}" ]; then
    r=$(timeout 10 squeue -h -u "$(id -un)" -n "$n" -o "$f" 2>/dev/null) || return 1
  else
    everything; [ $all_x -eq 0 ] || return 1; r=$all
  fi
  j=$(printf '%s\n' "$r" | sed -n "s/^\([0-9_]*\) .*|$n\$/\1/p" | head -n 1)
  [ -z "$j" ] || note "$j"
}
look() {
  ask "$1"; a=1; w=; b=
  case $x:$r in
    0:) a=0; q= ;;
    0:*)
      q=${r%%|*}; r=${r#*|}; b=${r#*|}; b=${b%%|*}; r=${r%%|*}
      case $q in PENDING*) place "$1" "$r" ;; *) b= ;; esac ;;
    *'Invalid job id'*) a=0; q= ;;
    *) q='UNKNOWN (Slurm does not answer)' ;;
  esac
}
field() { printf '%s\n' "$o" | sed -n "s/.* $1=\([^ ]*\).*/\1/p" | head -1; }
ended() {
  [ ! -s slurm_end ] || return 0
  o=$(timeout 3 scontrol show job -o "$1" 2>&1)
  z=$(field JobState); l=$(field TimeLimit); m=$(field NodeList)
  gone=; case $o in *'Invalid job id'*) gone=1 ;; esac
  if [ -z "$z" ]; then
    o=$(timeout 3 sacct -n -P -X -j "$1" -o State,Timelimit,NodeList 2>&1); x=$?
    case $x:$o in
      0:*'|'*) o=${o%%
*}; z=${o%%|*}; z=${z%% *}; o=${o#*|}; l=${o%%|*}; m=${o#*|} ;;
      0: | 127:* | *disabled*) [ -z "$gone" ] || { z=FORGOTTEN; l=; } ;;  # nobody knows, nor will
    esac
  fi
  case $z in PENDING | CONFIGURING | RUNNING | SUSPENDED | COMPLETING) a=1; return 0 ;; esac
  y=
  [ "$z" != NODE_FAIL ] || y=$(timeout 3 sinfo -h -N -n "$m" -t down,fail,no_respond -o %N 2>/dev/null |
    sort -u | tr '\n' ' ')
  # A network file system may show the job's last file later than Slurm its end.
  i=0; case $z in COMPLETED | FAILED)
    while [ ! -s exit_status ] && [ $i -lt 25 ]; do ls >/dev/null; sleep 0.2; i=$((i+1)); done ;;
  esac
  [ -z "$z" ] || [ -s exit_status ] || { echo "$z ${l:--} $y" > slurm_end.part && mv slurm_end.part slurm_end; }
}
)sh";

/// "NAME" in "... error: Node failure on NAME" and the like; empty without one.
std::string wordAfter(std::string_view log, std::string_view words) {
    const std::size_t at = log.rfind(words);
    if (at == std::string_view::npos) return {};
    const std::string_view rest = log.substr(at + words.size());
    return displayLine(rest.substr(0, rest.find_first_of(" \n\r\t")), 100);
}

std::string nodesLost(std::string_view names) {
    const std::string list = displayLine(names, 200);
    if (list.empty()) return "a node was lost";
    return list.find_first_of(" ,") == std::string::npos ? fmt::format("node {} was lost", list)
                                                         : fmt::format("nodes {} were lost", list);
}

}  // namespace

std::string slurmWords(std::string_view text) {
    std::istringstream in{std::string(text)};
    std::string out, line;
    while (std::getline(in, line)) {
        for (const char* prefix : {"sbatch: ", "srun: ", "error: "})
            if (line.starts_with(prefix)) line.erase(0, std::string_view(prefix).size());
        if (!line.empty()) out += (out.empty() ? "" : "; ") + line;
    }
    return displayLine(out);
}

std::vector<std::string> slurmChoices(const LauncherOptions& options) {
    const std::pair<const char*, const std::string*> words[] = {{"account", &options.account},
                                                                {"partition", &options.partition},
                                                                {"time", &options.time_limit}};
    std::vector<std::string> out;
    for (const auto& [key, value] : words)
        if (!value->empty()) out.push_back(fmt::format("--{}={}", key, *value));
    return out;
}

bool asksForDevices(const LauncherOptions& options) {
    return std::any_of(options.extra_lines.begin(), options.extra_lines.end(),
                       [](const std::string& line) {
                           if (!line.starts_with("#SBATCH")) return false;
                           for (const char* option : {" --gres", " --gpus", " -G"})
                               if (line.find(option) != std::string::npos) return true;
                           return false;
                       });
}

namespace {

/// A shell command that counts the kinds of nodes with GPUs to hand out (gres) in the user's own
/// partition, or the default one.
std::string countsGpuPartitions(const LauncherOptions& options) {
    const std::string ask = "timeout 5 sinfo -h -o '%P %G' ";
    if (options.partition.empty()) return ask + "2>/dev/null | grep '^[^ ]*\\* ' | grep -c gpu";
    return ask + "-p " + shellQuote(options.partition) + " 2>/dev/null | grep -c gpu";
}

}  // namespace

Result<std::string> deviceChoice(Connection& connection, const Plan& plan,
                                 const LauncherOptions& options) {
    if (plan.cluster.device.kind != DeviceKind::Gpu || asksForDevices(options))
        return std::string();
    PIPER_ASSIGN(const CommandResult r, runShell(connection, countsGpuPartitions(options)));
    if (r.exit_status != 0) return std::string();
    return fmt::format("--gpus-per-node={}", slurmShape(plan).tasks_per_node);
}

SlurmShape slurmShape(const Plan& plan) {
    const std::int64_t world = plan.layout.world();
    const std::int64_t per_node = std::max<std::int64_t>(1, plan.cluster.devices_per_node);
    return {(world + per_node - 1) / per_node, std::min(world, per_node), world};
}

std::vector<std::string> srunCommand(const LaunchRequest& request,
                                     const std::vector<std::string>& more) {
    const SlurmShape shape = slurmShape(request.plan);
    // In planes, a last node that is not full does not move ranks of the others.
    std::vector<std::string> argv = {
        "srun", fmt::format("--nodes={}", shape.nodes), fmt::format("--ntasks={}", shape.tasks),
        fmt::format("--distribution=plane={}", shape.tasks_per_node), "--kill-on-bad-exit=1"};
    argv.insert(argv.end(), more.begin(), more.end());
    const std::vector<std::string> worker = workerCommand(request);
    argv.insert(argv.end(), worker.begin(), worker.end());
    return argv;
}

std::string slurmEnvironment(const LauncherOptions& options) {
    std::string lines =
        "# Ranks find each other through PMIx, where Slurm has it; a type of your own stays.\n"
        "[ -n \"$SLURM_MPI_TYPE\" ] || ! srun --mpi=list 2>&1 | grep -q pmix ||\n"
        "  export SLURM_MPI_TYPE=pmix\n";
    if (!options.network_interface.empty())
        lines +=
            fmt::format("export OMPI_MCA_btl_tcp_if_include={0} OMPI_MCA_oob_tcp_if_include={0}\n",
                        shellQuote(options.network_interface));
    return lines;
}

std::string namesLostNode(const std::string& slurm_job) {
    if (slurm_job.empty()) return {};
    return fmt::format(
        R"sh(if [ $status -ne 0 ] && tail -n 5 {0} | grep -q 'Timed out waiting for job step'; then
  n=$(timeout 3 scontrol show job -o "{1}" 2>/dev/null | sed -n 's/.* NodeList=\([^ ]*\).*/\1/p')
  i=0; while [ -n "$n" ] && [ $i -lt 20 ]; do
    y=$(timeout 3 sinfo -h -N -n "$n" -t down,fail,no_respond -o %N 2>/dev/null | sort -u)
    [ -z "$y" ] || {{ echo "Node failure on" $(echo $y | tr ' ' ,) >> {0}; break; }}
    sleep 1; i=$((i+1))
  done
fi
)sh",
        kLogFile, slurm_job);
}

std::string_view slurmFunctions() {
    return kFunctions;
}

std::string cancelSlurmJob(const std::string& slurm_job) {
    // Only steps are signalled: srun that gets a SIGTERM kills its tasks at once.
    return fmt::format("j={}\n{}", shellQuote(slurm_job),
                       R"sh(begin=$(date +%s); sent=
while look "$j"; [ $a -eq 1 ]; do
  t=$(($(date +%s) - begin))
  if [ $t -ge 9 ]; then
    echo "Slurm job $j: $q, $(timeout 3 squeue -h -j "$j" -o %N 2>/dev/null)" >&2
    exit 9
  fi
  case $q in
    PENDING*) scancel -t PENDING "$j" ;;
    COMPLETING* | UNKNOWN*) ;;
    *)
      if [ $t -ge 7 ]; then scancel "$j"
      elif [ $t -ge 5 ]; then
        for s in $(squeue -h -s -j "$j" -o %i); do
          case ${s#*.} in *[!0-9]*) ;; *) scancel -s KILL "$s" ;; esac
        done
      elif [ "$t" != "$sent" ]; then sent=$t; scancel -s TERM "$j"
      fi ;;
  esac 2>/dev/null
  sleep 0.2
done
)sh");
}

std::string cancelSlurmSteps(const std::string& step_name) {
    return fmt::format(
        // Steps of older versions have other names: the job's own script says which.
        "n=$(sed -n \"s/.*--job-name=\\([^ ']*\\).*/\\1/p\" {} 2>/dev/null | head -n 1)\nd={}\n"
        "steps() {{\n"
        "  r=$(timeout 3 squeue -h -s -u \"$(id -un)\" -o '%i %j' 2>/dev/null) ||\n"
        "    {{ echo UNKNOWN; return; }}\n"
        "  printf '%s\\n' \"$r\" | awk -v n=\"${{n:-$d}}\" '$2 == n {{ print $1 }}'\n}}\n{}",
        kScriptFile, shellQuote(step_name), R"sh(begin=$(date +%s); sent=
while s=$(steps); [ -n "$s" ]; do
  t=$(($(date +%s) - begin)); k=TERM; [ $t -lt 4 ] || k=KILL
  [ $t -lt 8 ] || { echo "Slurm step $s" >&2; bad=1; break; }
  [ "$t" = "$sent" ] || [ "$s" = UNKNOWN ] || for i in $s; do scancel -s $k "$i" 2>/dev/null; done
  sent=$t; sleep 0.2
done
)sh");
}

std::optional<std::string> slurmEnding(std::string_view text) {
    std::istringstream in{displayLine(text, 400)};
    std::string state, limit, nodes;
    in >> state >> limit;
    std::getline(in, nodes);
    if (state.empty()) return std::nullopt;
    if (state == "TIMEOUT") return "Slurm ended the job at its time limit of " + limit;
    if (state == "NODE_FAIL") return nodesLost(nodes);
    if (state.starts_with("CANCELLED")) return "the job was cancelled in Slurm";
    if (state == "FORGOTTEN") return "Slurm knows the job no more, and it left no exit status";
    if (state == "OUT_OF_MEMORY") return "Slurm ended the job: it used up the memory it asked for";
    if (state == "COMPLETED" || state == "FAILED")
        return "Slurm calls the job " + state + ", but it left no exit status";
    return "Slurm ended the job: " + state;
}

std::optional<std::string> slurmEndingInLog(std::string_view log) {
    const auto says = [&](std::string_view words) {
        return log.find(words) != std::string_view::npos;
    };
    if (says("DUE TO TIME LIMIT")) return "Slurm ended the job at its time limit";
    if (const std::string node = wordAfter(log, "Node failure on "); !node.empty())
        return nodesLost(node);
    if (says("DUE TO NODE FAILURE")) return nodesLost("");
    if (says("DUE TO PREEMPTION")) return "Slurm ended the job for another one (preemption)";
    if (says("oom-kill event") || says("oom_kill event"))
        return "Slurm ended the job: a node's memory was used up";
    return std::nullopt;
}

Result<std::string> whyNoAllocation(Connection& connection, const std::string& allocation) {
    PIPER_ASSIGN(const CommandResult r,
                 runShell(connection, fmt::format("timeout 10 squeue -h -j {} -o '%T (%r)' 2>&1",
                                                  shellQuote(allocation))));
    const std::string said = displayLine(r.output, 200);
    if (r.exit_status == 0 && said.starts_with("RUNNING")) return std::string();
    if (r.exit_status == 0) return said.empty() ? "it has ended" : "it is " + said;
    return said.empty() ? "Slurm does not answer" : said;
}

Error slurmRefusal(Connection& connection, const LauncherOptions& options,
                   const CommandResult& sbatch) {
    std::string asked;
    const std::pair<const char*, const std::string*> words[] = {
        {"partition", &options.partition},
        {"account", &options.account},
        {"time limit", &options.time_limit}};
    for (const auto& [what, value] : words)
        if (!value->empty())
            asked += fmt::format("{}{} '{}'", asked.empty() ? " (" : ", ", what, *value);
    if (!asked.empty()) asked += ")";
    Error error = fail(ErrorCode::External, "sbatch on {} refused the job{}: {}",
                       connection.label(), asked, slurmWords(sbatch.error_output));
    const Result<CommandResult> known = runShell(
        connection,
        fmt::format("echo partitions: $(timeout 5 sinfo -h -o %R 2>/dev/null | sort -u)\n"
                    "p={}; [ -z \"$p\" ] || echo $(timeout 5 scontrol show partition \"$p\" "
                    "2>/dev/null | grep -E -o '(AllowAccounts|MaxTime|MaxNodes)=[^ ]*')\n"
                    "echo accounts: $(timeout 5 sacctmgr -n -P show assoc user=\"$(id -un)\" "
                    "format=account 2>/dev/null | sort -u)\n",
                    shellQuote(options.partition)));
    if (!known.ok()) return error;
    std::istringstream in{known->output};
    for (std::string line; std::getline(in, line);)
        if (const std::string shown = displayLine(line); !shown.empty() && !shown.ends_with(':'))
            error.hint += (error.hint.empty() ? "" : "; ") + shown;
    return error;
}

}  // namespace piper
