// SPDX-License-Identifier: Apache-2.0
// The clusters of machines.h for SimGrid, one host a rank, every route by name. Adaptive routing is
// ideal. PIPER_SIMULATED_MACHINE names one, PIPER_SIMULATED_NODES how many nodes.
#include <array>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/simgrid/machines.h"

namespace {

namespace sg = simgrid::s4u;
using Links = std::vector<sg::LinkInRoute>;

constexpr double kHostSpeed = 1e9, kFat = 1e15;

struct Rank {
    sg::Host* host;
    std::size_t node, place;
    sg::Link *out, *in;           ///< inside the node
    sg::Link *nic_up, *nic_down;  ///< may be shared
    sg::Link* spine;              ///< its way to other rails
};

class Cluster {
public:
    Cluster(const std::string& machine, std::size_t nodes)
        : m_machine(machineOf(machine)), m_nodes(nodes), m_zone(sg::create_full_zone("cluster")) {
        if (m_machine == nullptr)
            throw std::invalid_argument("PIPER_SIMULATED_MACHINE=" + machine +
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

    void addNode(std::size_t node) {
        const std::string name = "n" + std::to_string(node);
        const std::size_t nics = m_machine->nics;
        const double nic = m_machine->nic, port = m_machine->port;
        std::vector<std::array<sg::Link*, 2>> ways;
        for (std::size_t i = 0; i < nics; ++i)
            ways.push_back({link(name + "nicup" + std::to_string(i), nic, kNicLatency),
                            link(name + "nicdown" + std::to_string(i), nic, kSwitchLatency)});
        for (std::size_t i = 0; i < kRanksPerNode; ++i) {
            const std::string rank = std::to_string(node * kRanksPerNode + i);
            sg::Host* host = m_zone->create_host("node-" + rank, kHostSpeed)->seal();
            const auto& way = ways[i * nics / kRanksPerNode];
            m_ranks.push_back({host, node, i, link("out" + rank, port, kInsideLatency / 2),
                               link("in" + rank, port, kInsideLatency / 2), way[0], way[1],
                               link("spine" + rank, kFat, kSpineLatency)});
        }
    }
    void addFabric() {
        if (m_machine->taper <= 0.0) return;
        const double up =
            static_cast<double>(kGroupNodes * m_machine->nics) * m_machine->nic / m_machine->taper;
        for (std::size_t g = 0; g * kGroupNodes < m_nodes; ++g)
            m_groups.push_back({link("groupup" + std::to_string(g), up, kGroupLatency),
                                link("groupdown" + std::to_string(g), up, kGroupLatency)});
    }
    Links inside(const Rank& a, const Rank& b) {
        if (m_machine->twin <= 0.0) return {sg::LinkInRoute(a.out), sg::LinkInRoute(b.in)};
        const double rate = a.place / 2 == b.place / 2 ? m_machine->twin : m_machine->port;
        return {sg::LinkInRoute(
            link("xgmi" + a.host->get_name() + b.host->get_name(), rate, kInsideLatency))};
    }
    [[nodiscard]] Links across(const Rank& a, const Rank& b) const {
        Links out = {sg::LinkInRoute(a.nic_up)};
        if (m_machine->rails && a.place != b.place) out.emplace_back(a.spine);
        const std::size_t from = a.node / kGroupNodes, to = b.node / kGroupNodes;
        if (m_machine->taper > 0.0 && from != to) {
            out.emplace_back(m_groups[from][0]);
            out.emplace_back(m_groups[to][1]);
        }
        out.emplace_back(b.nic_down);
        return out;
    }

    const Machine* m_machine;
    std::size_t m_nodes;
    sg::NetZone* m_zone;
    std::vector<Rank> m_ranks;
    std::vector<std::array<sg::Link*, 2>> m_groups;
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
