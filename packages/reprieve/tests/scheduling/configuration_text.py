"""Reading a KubeSchedulerConfiguration in tests."""

from __future__ import annotations

import yaml

from reprieve.framework.configuration import SchedulerConfiguration
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.scheduling.profiles import profiles_of

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(text: str) -> SchedulerConfiguration:
    return configuration_of(yaml.safe_load(HEAD + text))


def profiles(text: str, gates: FeatureGates | None = None) -> dict[str, Profile]:
    return {profile.name: profile for profile in profiles_of(read(text), gates or FeatureGates())}


def names(profile: Profile, point: str) -> list[str]:
    return [plugin.name for plugin in getattr(profile, point)]
