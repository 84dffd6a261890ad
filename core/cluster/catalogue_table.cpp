// SPDX-License-Identifier: Apache-2.0
// Device numbers with their sources. Rates are dense. Memory: vendors write "80 GB" for 80 GiB of
// HBM; where a source lists what the driver shows (B300, GB300), that is taken.
// tf32, fp32 and nvfp4 rates stand in no source read here: they are entered as assumed, as are NICs
// that a source leaves open (A100: CX6 HDR; GH200: depends on the system; H20: not stated).
#include "core/cluster/catalogue_table.h"

namespace piper {
namespace {

constexpr std::string_view kEngineering =
    "https://github.com/stas00/ml-engineering compute/accelerator and network pages";
constexpr std::string_view kEngineeringAndConfigurator =
    "https://github.com/stas00/ml-engineering compute/accelerator and network pages; "
    "https://github.com/ai-dynamo/aiconfigurator systems/*.yaml (095f58a)";

constexpr CatalogueRow kRows[] = {
    {"A100 SXM 80GB", "A100|A100 SXM|A100-80GB|A100-SXM4-80GB", 312, 0, 0, 156, 19.5, 81920, 2039,
     300, 200, 8, 8, "nvlink", "ib", false, true, false, kEngineeringAndConfigurator},
    {"A100 SXM 40GB", "A100-40GB|A100-SXM4-40GB", 312, 0, 0, 156, 19.5, 40960, 1555, 300, 200, 8, 8,
     "nvlink", "ib", false, true, false, kEngineering},
    {"H100 SXM", "H100|H100 80GB|H100-SXM5-80GB", 989, 1979, 0, 494.7, 66.9, 81920, 3350, 450, 400,
     8, 8, "nvlink", "ib", false, false, false, kEngineeringAndConfigurator},
    {"H100 PCIe", "H100-PCIe", 756, 1513, 0, 378, 51.2, 81920, 2000, 64, 200, 8, 8, "pcie", "ib",
     true, true, false, kEngineering},
    {"H100 SXM 96GB HBM2e (500W)", "H100 96GB|H100 96GB HBM2e 500W", 989, 1979, 0, 494.7, 66.9,
     98304, 2400, 450, 400, 8, 8, "nvlink", "ib", false, false, false, "torchtitan benchmark page"},
    {"H200 SXM", "H200", 989, 1979, 0, 494.7, 66.9, 144384, 4800, 450, 400, 8, 8, "nvlink", "ib",
     false, false, false, kEngineeringAndConfigurator},
    {"GH200 96GB", "GH200", 989, 1979, 0, 494.7, 66.9, 98304, 4000, 450, 400, 1, 1, "nvlink", "ib",
     false, true, false, kEngineering},
    {"GH200 141GB", "", 989, 1979, 0, 494.7, 66.9, 144384, 4800, 450, 400, 1, 1, "nvlink", "ib",
     false, true, false, kEngineering},
    {"H800", "H800 SXM", 989, 1979, 0, 494.7, 66.9, 81920, 3400, 200, 400, 8, 8, "nvlink", "ib",
     false, false, false,
     "https://arxiv.org/abs/2505.11432 table 4; https://arxiv.org/abs/2412.19437"},
    {"H20", "", 148, 0, 0, 0, 0, 98304, 4000, 450, 400, 8, 8, "nvlink", "ib", false, true, false,
     kEngineering},
    {"B200 SXM", "B200", 2250, 4500, 9000, 0, 0, 184320, 8000, 900, 400, 8, 8, "nvlink", "ib",
     false, false, true, kEngineeringAndConfigurator},
    {"GB200", "GB200 NVL72", 2500, 5000, 10000, 0, 0, 190464, 8000, 900, 400, 4, 72, "nvlink", "ib",
     false, false, true, kEngineeringAndConfigurator},
    {"B300 SXM", "B300", 2250, 4500, 13500, 0, 0, 275040, 7750, 900, 800, 8, 8, "nvlink", "ib",
     false, false, true, kEngineeringAndConfigurator},
    {"GB300", "GB300 NVL72", 2500, 5000, 15000, 0, 0, 284208, 8000, 900, 800, 4, 72, "nvlink", "ib",
     false, false, true, kEngineeringAndConfigurator},
    {"MI250X GCD", "MI250X|Frontier", 191.5, 0, 0, 0, 47.9, 65536, 1640, 50, 100, 8, 8, "xgmi",
     "slingshot", false, false, false, kEngineering},
    {"MI300X", "", 1307, 2610, 0, 653.7, 163.4, 196608, 5300, 448, 400, 8, 8, "xgmi", "ib", false,
     false, false, kEngineering},
    {"MI325X", "", 1307, 2610, 0, 653.7, 163.4, 262144, 6000, 448, 400, 8, 8, "xgmi", "ib", false,
     false, false, kEngineering},
    {"MI355X", "", 2500, 5000, 0, 0, 0, 294912, 8000, 535.5, 400, 8, 8, "xgmi", "ib", false, false,
     true, kEngineering},
    {"L40S", "", 362, 733, 0, 183, 91.6, 49152, 860, 32, 100, 8, 8, "pcie", "ib", true, true, false,
     kEngineering},
};

}  // namespace

std::span<const CatalogueRow> catalogueRows() {
    return kRows;
}

}  // namespace piper
