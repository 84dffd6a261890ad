// SPDX-License-Identifier: Apache-2.0
#include "sessions/host_facts.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "sessions/display_text.h"
#include "sessions/job.h"

namespace piper {
namespace {

/// Sections "== NAME", each cut short and each program given up after 5 s.
constexpr const char* kScript = R"sh(LC_ALL=C; export LC_ALL
t() { if command -v timeout >/dev/null 2>&1; then timeout 5 "$@"; else "$@"; fi; }
has() { command -v "$1" >/dev/null 2>&1; }
s() { echo "== $1"; }
s host; uname -n
s nproc; nproc
s os; cat /etc/os-release
s memory; grep MemTotal /proc/meminfo
s lscpu; t lscpu
v() { has "$1" || return; t "$1" --version 2>/dev/null | head -1 | grep . || { broken=$1; echo "! $(t "$1" --version 2>&1 | tail -1)"; }; }
s mpirun; v mpirun
s srun; v srun
s nvcc; has nvcc && t nvcc --version 2>&1 | grep release
s nccl; (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | sed -n 's/.*libnccl\.so.* => //p' | head -1 |
  while read -r f; do readlink -f "$f"; done
s nvidia-smi; has nvidia-smi && t nvidia-smi 2>&1 | grep -m1 'Driver Version\|rror\|ailed'
s gpus; has nvidia-smi && t nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits 2>&1 | head -64
s topo; has nvidia-smi && t nvidia-smi topo -m 2>&1 | head -100
s nics; for d in /sys/class/net/*; do [ -e "$d/device" ] || continue
  echo "ethernet ${d##*/} $(cat "$d/speed" 2>/dev/null)"; done
for d in /sys/class/infiniband/*/ports/*; do [ -e "$d/rate" ] || continue
  n=${d#/sys/class/infiniband/}; echo "infiniband ${n%%/*} $(cat "$d/rate") $(cat "$d/link_layer" 2>/dev/null)"; done
s partitions; [ "$broken" != srun ] && has sinfo && t sinfo -h -e -o '%R|%a|%l|%D|%c|%m|%G|%P|%N|%F|%s|%X|%Y' 2>&1 | head -200
s topology; [ "$broken" != srun ] && has scontrol && t scontrol show topology 2>&1 | grep SwitchName | head -500
s scratch; for d in "$SCRATCH" "$WORK" "$TMPDIR" /scratch "/scratch/$USER" /local /lscratch /tmp; do
  [ -n "$d" ] && [ -d "$d" ] && [ -w "$d" ] && echo "$(t df -Pk "$d" 2>/dev/null | awk 'NR==2{print $4}') $d"; done | sort -u -k2
s end
)sh";

using Sections = std::map<std::string, std::string>;

Sections splitSections(std::string_view output) {
    Sections sections;
    std::string name;
    std::istringstream in{displayText(output)};
    std::string line;
    while (std::getline(in, line)) {
        if (line.starts_with("== "))
            name = line.substr(3);
        else
            sections[name] += line + "\n";
    }
    return sections;
}

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (line.find_first_not_of(" \t") != std::string::npos) out.push_back(line);
    return out;
}

std::string firstLine(const std::string& text) {
    const std::vector<std::string> all = lines(text);
    return all.empty() ? std::string() : displayLine(all.front(), 200);
}

std::vector<std::string> fields(std::string_view line, char separator) {
    std::vector<std::string> out;
    for (;;) {
        const std::size_t end = std::min(line.find(separator), line.size());
        out.push_back(displayLine(line.substr(0, end), 200));
        if (end == line.size()) return out;
        line.remove_prefix(end + 1);
    }
}

/// The value after `key` and a colon or equals sign on the line that starts with it.
std::string valueOf(const std::string& text, const std::string& key) {
    for (const std::string& line : lines(text)) {
        const std::size_t begin = line.find_first_not_of(' ');
        if (line.compare(begin, key.size(), key) != 0) continue;
        const std::size_t mark = line.find_first_of(":=", begin + key.size());
        if (mark == std::string::npos || mark != begin + key.size()) continue;
        std::string value = displayLine(line.substr(mark + 1), 200);
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
            value = value.substr(1, value.size() - 2);
        return value;
    }
    return {};
}

std::int64_t numberIn(const std::string& text) {
    return std::max<std::int64_t>(0, std::atoll(text.c_str()));
}

void readProcessor(const Sections& s, HostFacts& facts) {
    const auto text = [&](const char* name) {
        const auto found = s.find(name);
        return found == s.end() ? std::string() : found->second;
    };
    facts.host = firstLine(text("host"));
    facts.system = valueOf(text("os"), "PRETTY_NAME");
    facts.processors = numberIn(firstLine(text("nproc")));
    facts.memory =
        Bytes(1024.0 * static_cast<double>(numberIn(valueOf(text("memory"), "MemTotal"))));
    const std::string cpu = text("lscpu");
    facts.processor = valueOf(cpu, "Model name");
    facts.sockets = numberIn(valueOf(cpu, "Socket(s)"));
    facts.cores = facts.sockets * numberIn(valueOf(cpu, "Core(s) per socket"));
    facts.numa_nodes = numberIn(valueOf(cpu, "NUMA node(s)"));
    if (facts.processors == 0) facts.missing.emplace_back("processors: nproc did not say");
    if (facts.memory.value == 0) facts.missing.emplace_back("memory: /proc/meminfo did not say");
    if (facts.cores == 0) facts.missing.emplace_back("cores and sockets: lscpu did not say");
}

/// "libnccl.so.2.19.3" -> "2.19.3"
std::string versionInName(const std::string& path) {
    const std::size_t at = path.find(".so.");
    return at == std::string::npos ? path : path.substr(at + 4);
}

void readPrograms(const Sections& s, HostFacts& facts) {
    for (const char* program : {"mpirun", "srun", "nvcc", "nvidia-smi", "nccl"}) {
        const auto found = s.find(program);
        std::string version = found == s.end() ? std::string() : firstLine(found->second);
        if (std::string(program) == "nccl") version = versionInName(version);
        if (version.starts_with("! ")) {
            facts.missing.push_back(
                fmt::format("{} does not work: {}", program, version.substr(2)));
            version = "found, but does not work";
        }
        facts.programs[program] = version.empty() ? "not found" : version;
    }
}

void readGpus(const Sections& s, HostFacts& facts) {
    const auto found = s.find("gpus");
    const std::vector<std::string> rows =
        found == s.end() ? std::vector<std::string>() : lines(found->second);
    for (const std::string& row : rows) {
        const std::vector<std::string> f = fields(row, ',');
        const double memory = f.size() >= 3 ? std::atof(f[1].c_str()) : 0.0;
        if (memory <= 0) {
            facts.missing.push_back("GPUs: nvidia-smi says '" + displayLine(row, 120) + "'");
            return;
        }
        facts.gpus.push_back({f[0], mib(memory), f[2]});
    }
    if (facts.gpus.empty()) {
        const bool there = facts.programs["nvidia-smi"] != "not found";
        facts.missing.push_back(there ? "GPUs: nvidia-smi shows none (" +
                                            facts.programs["nvidia-smi"] + ")"
                                      : "GPUs: nvidia-smi is not there");
    }
}

/// The matrix of nvidia-smi topo -m: rows and columns GPU0.., NIC0.. or mlx5_0..
void readTopology(const Sections& s, HostFacts& facts) {
    const auto found = s.find("topo");
    if (found == s.end() || facts.gpus.size() < 2) return;
    const std::vector<std::string> rows = lines(found->second);
    std::vector<std::string> header;
    std::map<std::string, std::vector<int>> near;  // column of a NIC -> GPUs
    std::int64_t least = -1;
    bool all_links = true;
    std::string worst;
    for (const std::string& row : rows) {
        std::istringstream in(row);
        std::vector<std::string> words;
        for (std::string word; in >> word;) words.push_back(word);
        if (words.empty()) continue;
        if (header.empty() && words[0] == "GPU0") {
            header = words;
            continue;
        }
        if (header.empty() || !words[0].starts_with("GPU")) continue;
        for (std::size_t c = 0; c + 1 < words.size() && c < header.size(); ++c) {
            const std::string& cell = words[c + 1];
            const int gpu = std::atoi(words[0].c_str() + 3);
            if (header[c].starts_with("GPU") && cell != "X") {
                const std::int64_t links =
                    cell.starts_with("NV") ? std::atoll(cell.c_str() + 2) : 0;
                least = least < 0 ? links : std::min(least, links);
                if (links == 0) all_links = false, worst = cell;
            } else if (cell == "PIX" || cell == "PXB") {
                near[header[c]].push_back(gpu);
            }
        }
    }
    // A legend below the matrix names the NICs: "  NIC0: mlx5_0".
    for (const std::string& row : rows) {
        const std::size_t colon = row.find(':');
        const std::size_t begin = row.find_first_not_of(" \t");
        if (colon == std::string::npos || !row.substr(begin).starts_with("NIC")) continue;
        const auto node = near.find(row.substr(begin, colon - begin));
        if (node != near.end()) near[displayLine(row.substr(colon + 1), 60)] = node->second;
    }
    for (NicFacts& nic : facts.nics)
        if (const auto gpus = near.find(nic.name); gpus != near.end()) nic.gpus_near = gpus->second;
    if (least < 0) {
        facts.missing.emplace_back("GPU links: nvidia-smi topo -m could not be understood");
        return;
    }
    facts.nvlinks = all_links ? least : 0;
    facts.gpu_links = all_links ? fmt::format("NV{} between all {}", least, facts.gpus.size())
                                : worst + " between some";
}

void readNics(const Sections& s, HostFacts& facts) {
    const auto found = s.find("nics");
    if (found == s.end()) return;
    for (const std::string& line : lines(found->second)) {
        const std::vector<std::string> f = fields(line, ' ');
        if (f.size() < 3) continue;
        NicFacts nic;
        nic.kind = f[0];
        nic.name = f[1];
        // Mbit/s of an Ethernet interface, Gbit/s of an InfiniBand port.
        const double rate = std::max(0.0, std::atof(f[2].c_str()));
        nic.rate = BytesPerSecond(f[0] == "ethernet" ? rate * 1e6 / 8 : rate * 1e9 / 8);
        if (line.find("Ethernet") != std::string::npos) nic.kind = "roce";
        facts.nics.push_back(std::move(nic));
    }
}

void readSlurm(const Sections& s, HostFacts& facts) {
    const auto found = s.find("partitions");
    if (found != s.end())
        for (const std::string& line : lines(found->second)) {
            const std::vector<std::string> f = fields(line, '|');
            if (f.size() != 13) {
                facts.missing.push_back("Slurm: sinfo says '" + displayLine(line, 120) + "'");
                break;
            }
            PartitionFacts p;
            p.name = f[0], p.state = f[1], p.time_limit = f[2], p.gres = f[6];
            p.nodes = numberIn(f[3]), p.processors = numberIn(f[4]);
            p.memory = mib(static_cast<double>(numberIn(f[5])));
            p.is_default = f[7].ends_with('*');
            p.node_list = f[8], p.nodes_in_use = f[9], p.nodes_per_job = f[10];
            p.cores = numberIn(f[11]) * numberIn(f[12]);
            facts.partitions.push_back(std::move(p));
        }
    if (facts.programs["srun"] == "not found") facts.missing.emplace_back("Slurm: not there");
    if (const auto topology = s.find("topology"); topology != s.end())
        facts.switches = lines(topology->second);
}

void readScratch(const Sections& s, HostFacts& facts) {
    const auto found = s.find("scratch");
    if (found == s.end()) return;
    for (const std::string& line : lines(found->second)) {
        const std::size_t blank = line.find(' ');
        if (blank == std::string::npos || line[blank + 1] != '/') continue;
        facts.scratch.push_back({displayLine(line.substr(blank + 1), 300),
                                 Bytes(1024.0 * static_cast<double>(numberIn(line)))});
    }
}

}  // namespace

HostFacts parseHostFacts(std::string_view output) {
    const Sections sections = splitSections(output);
    HostFacts facts;
    readProcessor(sections, facts);
    readPrograms(sections, facts);
    readNics(sections, facts);
    readGpus(sections, facts);
    readTopology(sections, facts);
    readSlurm(sections, facts);
    readScratch(sections, facts);
    if (facts.programs["mpirun"] == "not found") facts.missing.emplace_back("MPI: no mpirun");
    if (sections.count("end") == 0 && output.find("== end") == std::string_view::npos)
        facts.missing.emplace_back("the host's answer ended early");
    return facts;
}

Result<HostFacts> discoverHost(Connection& connection) {
    PIPER_ASSIGN(const CommandResult r, runShell(connection, kScript));
    if (r.output.find("== host") == std::string::npos)
        return fail(ErrorCode::External, "{} says nothing of itself: {}", connection.label(),
                    displayLine(r.error_output + r.output, 200));
    return parseHostFacts(r.output);
}

}  // namespace piper
