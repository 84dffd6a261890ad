# SPDX-License-Identifier: Apache-2.0
# Turns a table into one source file: cmake -DOUTPUT=F -DINPUT=published_calls.txt -P this.
file(READ ${INPUT} content)
file(WRITE ${OUTPUT} "// Made by embed_calls.cmake from core/cost/calls.
#include \"core/cost/published_calls.h\"

namespace piper {
std::string_view embeddedCalls() {
    return R\"calls(${content})calls\";
}
}  // namespace piper
")
