# SPDX-License-Identifier: Apache-2.0
# Turns the tables into one source file: cmake -DOUTPUT=F -DINPUTS=a.txt;b.txt -P this.
set(text "// Made by embed_data.cmake from core/cost/data.\n#include \"core/cost/kernel_tables.h\"\n\nnamespace piper {\n")
string(APPEND text "std::string_view embeddedKernelTable(std::string_view name) {\n")
foreach(input IN LISTS INPUTS)
    file(READ ${input} content)
    get_filename_component(name ${input} NAME_WE)
    string(APPEND text "    if (name == \"${name}\")\n        return R\"table(${content})table\";\n")
endforeach()
string(APPEND text "    return {};\n}\n}  // namespace piper\n")
file(WRITE ${OUTPUT} "${text}")
