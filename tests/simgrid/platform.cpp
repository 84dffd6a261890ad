// SPDX-License-Identifier: Apache-2.0
// Clusters for SimGrid, one host a rank, eight ranks a node, every route by name:
//   frontier  Frontier-like: pairs of GCDs at 200 GB/s, others at 50; four NICs of 25 GB/s, each
//             shared by a pair; switch groups of 16 nodes, tapered 1.75. Adaptive routing is ideal.
//   h100      NVLink of 450 GB/s a rank and direction; a NIC of 50 GB/s a rank on a switch of its
//             rail, rails joined by a spine that does not block.
//   ethernet  one NIC of 25 Gb/s a node; 10 GB/s a rank inside.
// PIPER_SIMULATED_MACHINE names one, PIPER_SIMULATED_NODES how many nodes.
#include <array>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace sg = simgrid::s4u;
using Links = std::vector<sg::LinkInRoute>;

constexpr std::size_t kRanks = 8, kGroupNodes = 16;
constexpr double kHostSpeed = 1e9;
constexpr double us = 1e-6, GB = 1e9, kFat = 1e15;

struct Rank {
    sg::Host* host;
    std::size_t node, place;
    sg::Link *out, *in;           ///< inside the node
    sg::Link *nic_up, *nic_down;  ///< may be shared
};

class Cluster {
public:
    Cluster(std::string machine, std::size_t nodes)
        : m_machine(std::move(machine)), m_nodes(nodes), m_zone(sg::create_full_zone("cluster")) {
        if (m_machine != "frontier" && m_machine != "h100" && m_machine != "ethernet")
            throw std::invalid_argument("PIPER_SIMULATED_MACHINE=" + m_machine +
                                        ": frontier, h100 or ethernet");
        for (std::size_t node = 0; node < nodes; ++node) addNode(node);
        addFabric();
        for (const Rank& a : m_ranks)
            for (const Rank& b : m_ranks)
                if (a.host != b.host)
                    m_zone->add_route(a.host->get_netpoint(), b.host->get_netpoint(), nullptr,
                                      nullptr, a.node == b.node ? inside(a, b) : across(a, b),
                                      false);
        m_zone->seal();
    }

private:
    sg::Link* link(const std::string& name, double bandwidth, double latency) {
        return m_zone->create_link(name, bandwidth)->set_latency(latency)->seal();
    }
    [[nodiscard]] bool is(const char* machine) const { return m_machine == machine; }

    void addNode(std::size_t node) {
        const std::string name = "n" + std::to_string(node);
        const std::size_t nics = is("frontier") ? 4 : is("h100") ? 8 : 1;
        const double nic = is("frontier") ? 25 * GB : is("h100") ? 50 * GB : 25e9 / 8;
        const double port = is("h100") ? 450 * GB : 10 * GB;
        std::vector<std::array<sg::Link*, 2>> ways;
        for (std::size_t i = 0; i < nics; ++i)
            ways.push_back({link(name + "nicup" + std::to_string(i), nic, 0.5 * us),
                            link(name + "nicdown" + std::to_string(i), nic, 0.5 * us)});
        for (std::size_t i = 0; i < kRanks; ++i) {
            const std::string rank = std::to_string(node * kRanks + i);
            sg::Host* host = m_zone->create_host("node-" + rank, kHostSpeed)->seal();
            const auto& way = ways[i * nics / kRanks];
            m_ranks.push_back({host, node, i, link("out" + rank, port, 0.35 * us),
                               link("in" + rank, port, 0.35 * us), way[0], way[1]});
        }
    }
    void addFabric() {
        m_wire = link("wire", kFat, 1.0 * us);
        m_spine = link("spine", kFat, 0.5 * us);
        const double up = static_cast<double>(kGroupNodes) * 4 * 25 * GB / 1.75;
        for (std::size_t g = 0; g * kGroupNodes < m_nodes; ++g)
            m_groups.push_back({link("groupup" + std::to_string(g), up, 0.25 * us),
                                link("groupdown" + std::to_string(g), up, 0.25 * us)});
    }
    Links inside(const Rank& a, const Rank& b) {
        if (!is("frontier")) return {sg::LinkInRoute(a.out), sg::LinkInRoute(b.in)};
        const double rate = a.place / 2 == b.place / 2 ? 200 * GB : 50 * GB;
        return {sg::LinkInRoute(
            link("xgmi" + a.host->get_name() + b.host->get_name(), rate, 0.7 * us))};
    }
    [[nodiscard]] Links across(const Rank& a, const Rank& b) const {
        Links out = {sg::LinkInRoute(a.nic_up), sg::LinkInRoute(m_wire)};
        if (is("h100") && a.place != b.place) out.emplace_back(m_spine);
        const std::size_t from = a.node / kGroupNodes, to = b.node / kGroupNodes;
        if (is("frontier") && from != to) {
            out.emplace_back(m_groups[from][0]);
            out.emplace_back(m_groups[to][1]);
        }
        out.emplace_back(b.nic_down);
        return out;
    }

    std::string m_machine;
    std::size_t m_nodes;
    sg::NetZone* m_zone;
    std::vector<Rank> m_ranks;
    std::vector<std::array<sg::Link*, 2>> m_groups;
    sg::Link *m_wire = nullptr, *m_spine = nullptr;
};

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) throw std::invalid_argument(std::string(name) + " is not set");
    return value;
}

}  // namespace

extern "C" void load_platform(const sg::Engine& engine);
void load_platform(const sg::Engine&) {
    Cluster(environment("PIPER_SIMULATED_MACHINE"),
            std::stoul(environment("PIPER_SIMULATED_NODES")));
}
