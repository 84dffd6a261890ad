# SPDX-License-Identifier: Apache-2.0
# piper_precompile(ui_views <QWidget> "core/predict/predict.h"): headers that nearly every source of
# the target reads anyway are compiled once. ccache keeps its hits: it is told that the sources use
# neither __TIME__ nor macros that the precompiled headers hide.
function(piper_precompile name)
    list(TRANSFORM ARGN PREPEND "${CMAKE_SOURCE_DIR}/" REGEX "^[^<]")
    target_precompile_headers(piper_${name} PRIVATE ${ARGN})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(piper_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
    if(PIPER_CCACHE)
        set_target_properties(piper_${name} PROPERTIES CXX_COMPILER_LAUNCHER
            "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${PIPER_CCACHE}")
    endif()
endfunction()
