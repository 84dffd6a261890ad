// SPDX-License-Identifier: Apache-2.0
extern "C" int hiddenAnswer();
extern "C" int usesHidden() {
    return hiddenAnswer();
}
