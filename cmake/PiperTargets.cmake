# SPDX-License-Identifier: Apache-2.0
# Target helpers: every library of ours is made here, so warnings, sanitizers and ccache are set once.

find_program(PIPER_CCACHE ccache)
if(PIPER_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${PIPER_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${PIPER_CCACHE})
endif()

add_library(piper_options INTERFACE)
target_include_directories(piper_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(piper_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion>
    # Clang compiles the fuzzers alone and warns of other things.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Werror>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-string-conversion>
    # Paths in assertions and debug information are relative to the source tree.
    $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)
if(PIPER_SANITIZE)
    target_compile_options(piper_options INTERFACE
        -fsanitize=${PIPER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    target_link_options(piper_options INTERFACE -fsanitize=${PIPER_SANITIZE})
endif()

# Headers that nearly every source reads are compiled once for libraries and once for tests; builds
# without them (dev) keep every source honest about its includes.
option(PIPER_PRECOMPILE "Compile the common headers once" OFF)

# piper_precompiled(piper_core_plan LIBRARY|TEST): lets a target of ours use them.
function(piper_precompiled target kind)
    if(NOT PIPER_PRECOMPILE)
        return()
    endif()
    string(TOLOWER ${kind} suffix)
    target_link_libraries(${target} PRIVATE fmt::fmt)  # its definitions are in the headers
    target_precompile_headers(${target} REUSE_FROM piper_precompiled_${suffix})
    piper_cache_precompiled(${target})
endfunction()

# ccache keeps its hits: sources use neither __TIME__ nor macros that the precompiled headers hide.
function(piper_cache_precompiled target)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    if(PIPER_CCACHE)
        set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
            "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${PIPER_CCACHE}")
    endif()
endfunction()

if(PIPER_PRECOMPILE)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        # g++ 12 warns of its own std::string there (GCC bugs 105329, 105651).
        target_compile_options(piper_options INTERFACE
            "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>")
    endif()
    set(headers <algorithm> <array> <cstdint> <filesystem> <fstream> <functional> <map> <memory>
        <optional> <span> <string> <string_view> <variant> <vector> <fmt/format.h>
        <nlohmann/json.hpp>)
    file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cpp "int main() { return 0; }\n")
    add_library(piper_precompiled_library STATIC ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_precompile_headers(piper_precompiled_library PRIVATE ${headers})
    target_link_libraries(piper_precompiled_library PRIVATE piper_options fmt::fmt)
    piper_cache_precompiled(piper_precompiled_library)
    if(PIPER_TESTS)
        add_executable(piper_precompiled_test ${CMAKE_BINARY_DIR}/precompiled.cpp)
        target_precompile_headers(piper_precompiled_test PRIVATE ${headers} <gmock/gmock.h>
            <gtest/gtest.h>)
        target_link_libraries(piper_precompiled_test PRIVATE piper_options fmt::fmt GTest::gtest)
        piper_cache_precompiled(piper_precompiled_test)
    endif()
endif()

# piper_library(core_base SOURCES a.cpp DEPS core_model PRIVATE_DEPS SQLite::SQLite3)
# makes target piper_core_base; names in DEPS without '::' are ours.
function(piper_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
    if(ARG_SOURCES)
        add_library(piper_${name} STATIC ${ARG_SOURCES})
        set(scope PUBLIC)
        target_link_libraries(piper_${name} PRIVATE ${ARG_PRIVATE_DEPS})
        # kernels_cpu compiles with OpenMP and, per file, other instruction sets.
        if(name MATCHES "^(app_common|app_files|app_worker|collectors|core|kernels|sessions)"
           AND NOT name STREQUAL "kernels_cpu")
            piper_precompiled(piper_${name} LIBRARY)
        endif()
    else()
        add_library(piper_${name} INTERFACE)
        set(scope INTERFACE)
    endif()
    target_link_libraries(piper_${name} ${scope} piper_options)
    foreach(dep IN LISTS ARG_DEPS)
        if(dep MATCHES "::")
            target_link_libraries(piper_${name} ${scope} ${dep})
        else()
            target_link_libraries(piper_${name} ${scope} piper_${dep})
        endif()
    endforeach()
endfunction()

# piper_test(core_base SOURCES a_test.cpp DEPS core_base [LABELS fast] [TIMEOUT 60])
# one GoogleTest binary; each of its tests is one ctest entry. One label: the discovery of CMake 3.25
# flattens lists. fast, long, or device (needs a GPU, and may skip).
function(piper_test name)
    cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS;EXTRA" ${ARGN})
    if(NOT ARG_LABELS)
        set(ARG_LABELS fast)
    endif()
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 60)
    endif()
    if(PIPER_SANITIZE)
        math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
    endif()
    add_executable(${name}_test ${ARG_SOURCES})
    target_link_libraries(${name}_test PRIVATE piper_options piper_test_support GTest::gtest_main GTest::gmock)
    # Qt asks for position-independent code of another kind.
    if(NOT name MATCHES "^ui_")
        piper_precompiled(${name}_test TEST)
    endif()
    foreach(dep IN LISTS ARG_DEPS)
        if(dep MATCHES "::")
            target_link_libraries(${name}_test PRIVATE ${dep})
        else()
            target_link_libraries(${name}_test PRIVATE piper_${dep})
        endif()
    endforeach()
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}."
        PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
