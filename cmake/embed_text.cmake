# SPDX-License-Identifier: Apache-2.0
# Turns text files into one function that gives a file's content by its name without extension:
# cmake -DOUTPUT=F -DHEADER=core/x/y.h -DFUNCTION=embeddedX "-DINPUTS=a.txt;b.txt" -P this.
set(text "// Made by embed_text.cmake.\n#include \"${HEADER}\"\n\nnamespace piper {\n")
string(APPEND text "std::string_view ${FUNCTION}(std::string_view name) {\n")
foreach(input IN LISTS INPUTS)
    file(READ ${input} content)
    get_filename_component(name ${input} NAME_WE)
    string(APPEND text "    if (name == \"${name}\")\n        return R\"text(${content})text\";\n")
endforeach()
string(APPEND text "    return {};\n}\n}  // namespace piper\n")
file(WRITE ${OUTPUT} "${text}")
