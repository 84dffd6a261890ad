# SPDX-License-Identifier: Apache-2.0
# oneDNN's own package file asks for OpenCL's headers, which Debian only recommends beside
# libdnnl-dev and which a CPU engine does not need; so header and library are found here.
find_path(OneDnn_INCLUDE_DIR dnnl.hpp)
find_library(OneDnn_LIBRARY dnnl)
if(OneDnn_INCLUDE_DIR AND EXISTS ${OneDnn_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
    file(STRINGS ${OneDnn_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h version_lines
        REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" version_numbers "${version_lines}")
    string(REPLACE ";" "." OneDnn_VERSION "${version_numbers}")
endif()
if(OneDnn_INCLUDE_DIR AND OneDnn_LIBRARY)
    set(OneDnn_FOUND TRUE)
    if(NOT TARGET OneDnn::OneDnn)
        add_library(OneDnn::OneDnn UNKNOWN IMPORTED)
        set_target_properties(OneDnn::OneDnn PROPERTIES IMPORTED_LOCATION ${OneDnn_LIBRARY}
            INTERFACE_INCLUDE_DIRECTORIES ${OneDnn_INCLUDE_DIR})
    endif()
endif()
