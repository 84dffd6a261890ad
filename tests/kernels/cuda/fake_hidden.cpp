// SPDX-License-Identifier: Apache-2.0
extern "C" int hiddenAnswer() {
    return 42;
}
