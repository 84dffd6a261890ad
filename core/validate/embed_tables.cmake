# SPDX-License-Identifier: Apache-2.0
# Turns the reference tables into one source file: cmake -DOUTPUT=F -DINPUTS=a.csv;b.csv -P this.
set(text "// Made by embed_tables.cmake from core/validate/data.\n#include \"core/validate/tables.h\"\n\nnamespace piper {\n")
string(APPEND text "std::string_view bundledTable(std::string_view name) {\n")
foreach(input IN LISTS INPUTS)
    file(READ ${input} content)
    get_filename_component(name ${input} NAME_WE)
    string(APPEND text "    if (name == \"${name}\")\n        return R\"table(${content})table\";\n")
endforeach()
string(APPEND text "    return {};\n}\n}  // namespace piper\n")
file(WRITE ${OUTPUT} "${text}")
