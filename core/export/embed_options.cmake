# SPDX-License-Identifier: Apache-2.0
# Turns the option lists into one source file: cmake -DOUTPUT=F -DINPUTS=a.txt;b.txt -P this.
set(text "// Made by embed_options.cmake from core/export/options.\n#include \"core/export/option_list.h\"\n\nnamespace piper {\n")
string(APPEND text "std::string_view embeddedOptions(std::string_view file) {\n")
foreach(input IN LISTS INPUTS)
    file(READ ${input} content)
    get_filename_component(name ${input} NAME_WE)
    string(APPEND text "    if (file == \"${name}\")\n        return R\"options(${content})options\";\n")
endforeach()
string(APPEND text "    return {};\n}\n}  // namespace piper\n")
file(WRITE ${OUTPUT} "${text}")
