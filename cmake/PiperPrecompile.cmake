# SPDX-License-Identifier: Apache-2.0
# piper_precompile(ui_views <QWidget> "core/predict/predict.h"): headers that nearly every source of
# the target reads anyway are compiled once; with PIPER_PRECOMPILE the common ones are taken.
function(piper_precompile name)
    if(PIPER_PRECOMPILE)
        return()
    endif()
    list(TRANSFORM ARGN PREPEND "${CMAKE_SOURCE_DIR}/" REGEX "^[^<]")
    target_precompile_headers(piper_${name} PRIVATE ${ARGN})
    piper_cache_precompiled(piper_${name})
endfunction()
