# SPDX-License-Identifier: Apache-2.0


class LabError(Exception):
    """The lab could not be built or used."""
