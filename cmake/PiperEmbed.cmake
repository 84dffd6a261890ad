# SPDX-License-Identifier: Apache-2.0
# piper_embed(out core/x/y.h embeddedX a.txt b.txt): core opens no file, so its tables are compiled
# in. `out` becomes the source that defines std::string_view embeddedX(std::string_view name), which
# the header declares.
function(piper_embed out header function)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
    set(script ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake)
    add_custom_command(OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DFUNCTION=${function}
                "-DINPUTS=${ARGN}" -P ${script}
        DEPENDS ${ARGN} ${script} VERBATIM)
    set(${out} ${output} PARENT_SCOPE)
endfunction()
