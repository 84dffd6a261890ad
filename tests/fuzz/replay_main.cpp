// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over files and folders, and over mutations of each file, without libFuzzer.
// usage: fuzz_NAME [--mutations N] FILE_OR_FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& bytes) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

/// What fuzzers do: cut, flip, overwrite, repeat a part.
std::string mutated(std::string bytes, std::mt19937& random) {
    const auto place = [&] { return bytes.empty() ? 0 : random() % bytes.size(); };
    for (auto changes = 1 + random() % 6; changes > 0 && !bytes.empty(); --changes) {
        const std::size_t at = place();
        switch (random() % 5) {
            case 0:
                bytes.resize(at);
                break;
            case 1:
                bytes[at] ^= static_cast<char>(1U << random() % 8);
                break;
            case 2:
                bytes[at] = static_cast<char>(random());
                break;
            case 3:
                bytes.erase(at, random() % 64);
                break;
            default:
                bytes.insert(at, bytes.substr(place(), random() % 64));
        }
    }
    return bytes;
}

std::vector<std::filesystem::path> filesOf(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) return {path};
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

int main(int argc, char** argv) {
    long mutations = 0, inputs = 0;
    std::mt19937 random(5);
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--mutations") == 0 && i + 1 < argc) {
            mutations = std::strtol(argv[++i], nullptr, 10);
            continue;
        }
        for (const std::filesystem::path& path : filesOf(argv[i])) {
            std::ifstream file(path, std::ios::binary);
            const std::string bytes{std::istreambuf_iterator<char>(file), {}};
            if (!file) {
                std::fprintf(stderr, "cannot read %s\n", path.c_str());
                return 2;
            }
            run(bytes);
            for (long m = 0; m < mutations; ++m) run(mutated(bytes, random));
            inputs += 1 + mutations;
        }
    }
    std::printf("%ld inputs\n", inputs);
    return inputs > 0 ? 0 : 2;
}
