// SPDX-License-Identifier: Apache-2.0
#include "app/alltoall/wire.h"

#include <fstream>
#include <sstream>
#include <string>

namespace piper::app {

WireCounters& WireCounters::operator+=(const WireCounters& other) {
    sent_bytes += other.sent_bytes;
    sent_again += other.sent_again;
    return *this;
}

WireCounters WireCounters::operator-(const WireCounters& other) const {
    return {sent_bytes - other.sent_bytes, sent_again - other.sent_again};
}

WireCounters readWire() {
    WireCounters out;
    std::ifstream devices("/proc/net/dev");
    for (std::string line; std::getline(devices, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        std::string name;
        std::istringstream(line.substr(0, colon)) >> name;
        std::istringstream values(line.substr(colon + 1));
        std::int64_t skipped = 0, sent = 0;
        for (int i = 0; i < 8; ++i) values >> skipped;
        values >> sent;
        if (name == "lo" || !values) continue;
        out.sent_bytes += sent;
    }
    std::ifstream snmp("/proc/net/snmp");
    std::string names, numbers;
    while (std::getline(snmp, names) && std::getline(snmp, numbers)) {
        std::istringstream name(names), number(numbers);
        std::string key, value;
        while (name >> key && number >> value)
            if (key == "RetransSegs") out.sent_again = std::stoll(value);
    }
    return out;
}

}  // namespace piper::app
