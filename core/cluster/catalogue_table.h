// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace piper {

/// One device of the catalogue as its sources print it; 0: not known. Not for other folders.
struct CatalogueRow {
    std::string_view name;
    std::string_view short_names;  ///< separated by '|'
    /// Dense. The sources state bf16 and fp8; nvfp4, tf32 and fp32 are assumed.
    double bf16_tflops, fp8_tflops, nvfp4_tflops, tf32_tflops, fp32_tflops;
    double memory_mib;
    double memory_gb_s;
    double scale_up_gb_s;  ///< per direction and device, inside the scale-up domain
    double nic_gbit_s;     ///< per device
    int devices_per_node;
    int scale_up_devices;        ///< devices one NVLink or xGMI domain joins
    std::string_view scale_up;   ///< "nvlink", "xgmi", "pcie"
    std::string_view scale_out;  ///< "ib", "slingshot", "ethernet"
    bool links_assumed;          ///< the sources do not state the scale-up links
    bool nic_assumed;            ///< nor the NICs
    bool block_scaled;           ///< MXFP8 at the fp8 rate
    std::string_view source;
};

[[nodiscard]] std::span<const CatalogueRow> catalogueRows();

}  // namespace piper
