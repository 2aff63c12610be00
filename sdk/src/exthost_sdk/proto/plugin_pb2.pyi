from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOURCE_TYPE_UNSPECIFIED: _ClassVar[ResourceType]
    RESOURCE_TYPE_JOB: _ClassVar[ResourceType]
    RESOURCE_TYPE_STEP: _ClassVar[ResourceType]
    RESOURCE_TYPE_CACHE: _ClassVar[ResourceType]
    RESOURCE_TYPE_SECRET: _ClassVar[ResourceType]
    RESOURCE_TYPE_ARTIFACT: _ClassVar[ResourceType]
    RESOURCE_TYPE_SERVICE: _ClassVar[ResourceType]

class DependencyType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEPENDENCY_TYPE_UNSPECIFIED: _ClassVar[DependencyType]
    DEPENDENCY_TYPE_REQUIRES: _ClassVar[DependencyType]
    DEPENDENCY_TYPE_OPTIONAL: _ClassVar[DependencyType]
    DEPENDENCY_TYPE_CONFLICTS: _ClassVar[DependencyType]

class MergeStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MERGE_STRATEGY_UNSPECIFIED: _ClassVar[MergeStrategy]
    MERGE_STRATEGY_REPLACE: _ClassVar[MergeStrategy]
    MERGE_STRATEGY_MERGE: _ClassVar[MergeStrategy]
    MERGE_STRATEGY_APPEND: _ClassVar[MergeStrategy]

class WorkflowConditionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKFLOW_CONDITION_KIND_UNSPECIFIED: _ClassVar[WorkflowConditionKind]
    WORKFLOW_CONDITION_KIND_PARAMETER: _ClassVar[WorkflowConditionKind]
    WORKFLOW_CONDITION_KIND_VARIABLE: _ClassVar[WorkflowConditionKind]
    WORKFLOW_CONDITION_KIND_ENV: _ClassVar[WorkflowConditionKind]
    WORKFLOW_CONDITION_KIND_EXPRESSION: _ClassVar[WorkflowConditionKind]
RESOURCE_TYPE_UNSPECIFIED: ResourceType
RESOURCE_TYPE_JOB: ResourceType
RESOURCE_TYPE_STEP: ResourceType
RESOURCE_TYPE_CACHE: ResourceType
RESOURCE_TYPE_SECRET: ResourceType
RESOURCE_TYPE_ARTIFACT: ResourceType
RESOURCE_TYPE_SERVICE: ResourceType
DEPENDENCY_TYPE_UNSPECIFIED: DependencyType
DEPENDENCY_TYPE_REQUIRES: DependencyType
DEPENDENCY_TYPE_OPTIONAL: DependencyType
DEPENDENCY_TYPE_CONFLICTS: DependencyType
MERGE_STRATEGY_UNSPECIFIED: MergeStrategy
MERGE_STRATEGY_REPLACE: MergeStrategy
MERGE_STRATEGY_MERGE: MergeStrategy
MERGE_STRATEGY_APPEND: MergeStrategy
WORKFLOW_CONDITION_KIND_UNSPECIFIED: WorkflowConditionKind
WORKFLOW_CONDITION_KIND_PARAMETER: WorkflowConditionKind
WORKFLOW_CONDITION_KIND_VARIABLE: WorkflowConditionKind
WORKFLOW_CONDITION_KIND_ENV: WorkflowConditionKind
WORKFLOW_CONDITION_KIND_EXPRESSION: WorkflowConditionKind

class Hello(_message.Message):
    __slots__ = ("core_protocol", "core_version", "env")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CORE_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CORE_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    core_protocol: int
    core_version: str
    env: _containers.ScalarMap[str, str]
    def __init__(self, core_protocol: _Optional[int] = ..., core_version: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PluginInfo(_message.Message):
    __slots__ = ("name", "version", "protocol", "capabilities", "requires", "conflicts_with", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_WITH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    protocol: int
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    requires: _containers.RepeatedScalarFieldContainer[str]
    conflicts_with: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., protocol: _Optional[int] = ..., capabilities: _Optional[_Iterable[str]] = ..., requires: _Optional[_Iterable[str]] = ..., conflicts_with: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DetectRequest(_message.Message):
    __slots__ = ("repo",)
    REPO_FIELD_NUMBER: _ClassVar[int]
    repo: RepoSnapshot
    def __init__(self, repo: _Optional[_Union[RepoSnapshot, _Mapping]] = ...) -> None: ...

class RepoSnapshot(_message.Message):
    __slots__ = ("root_path", "files", "git", "file_cache")
    class FileCacheEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    ROOT_PATH_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    GIT_FIELD_NUMBER: _ClassVar[int]
    FILE_CACHE_FIELD_NUMBER: _ClassVar[int]
    root_path: str
    files: _containers.RepeatedScalarFieldContainer[str]
    git: GitInfo
    file_cache: _containers.ScalarMap[str, bytes]
    def __init__(self, root_path: _Optional[str] = ..., files: _Optional[_Iterable[str]] = ..., git: _Optional[_Union[GitInfo, _Mapping]] = ..., file_cache: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class GitInfo(_message.Message):
    __slots__ = ("branch", "commit_sha", "is_dirty", "tags")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    COMMIT_SHA_FIELD_NUMBER: _ClassVar[int]
    IS_DIRTY_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    branch: str
    commit_sha: str
    is_dirty: bool
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, branch: _Optional[str] = ..., commit_sha: _Optional[str] = ..., is_dirty: _Optional[bool] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

class DetectResult(_message.Message):
    __slots__ = ("signals", "facts", "confidence", "diagnostics")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    signals: _containers.RepeatedScalarFieldContainer[str]
    facts: _containers.ScalarMap[str, str]
    confidence: float
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    def __init__(self, signals: _Optional[_Iterable[str]] = ..., facts: _Optional[_Mapping[str, str]] = ..., confidence: _Optional[float] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("capabilities", "facts", "schema", "flags", "repo")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class FlagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    REPO_FIELD_NUMBER: _ClassVar[int]
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    facts: _containers.ScalarMap[str, str]
    schema: CigenSchema
    flags: _containers.ScalarMap[str, str]
    repo: RepoSnapshot
    def __init__(self, capabilities: _Optional[_Iterable[str]] = ..., facts: _Optional[_Mapping[str, str]] = ..., schema: _Optional[_Union[CigenSchema, _Mapping]] = ..., flags: _Optional[_Mapping[str, str]] = ..., repo: _Optional[_Union[RepoSnapshot, _Mapping]] = ...) -> None: ...

class PlanResult(_message.Message):
    __slots__ = ("resources", "deps", "diagnostics")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    DEPS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    deps: _containers.RepeatedCompositeFieldContainer[Dependency]
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., deps: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("id", "type", "attributes", "metadata")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: ResourceType
    attributes: _containers.ScalarMap[str, str]
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., type: _Optional[_Union[ResourceType, str]] = ..., attributes: _Optional[_Mapping[str, str]] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Dependency(_message.Message):
    __slots__ = ("to", "type")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    to: str
    type: DependencyType
    def __init__(self, to: _Optional[str] = ..., type: _Optional[_Union[DependencyType, str]] = ..., **kwargs) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("target", "graph", "work_signatures", "schema", "facts")
    class WorkSignaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TARGET_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    WORK_SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    target: str
    graph: _containers.RepeatedCompositeFieldContainer[Resource]
    work_signatures: _containers.ScalarMap[str, bytes]
    schema: CigenSchema
    facts: _containers.ScalarMap[str, str]
    def __init__(self, target: _Optional[str] = ..., graph: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., work_signatures: _Optional[_Mapping[str, bytes]] = ..., schema: _Optional[_Union[CigenSchema, _Mapping]] = ..., facts: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GenerateResult(_message.Message):
    __slots__ = ("fragments", "diagnostics")
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    def __init__(self, fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("path", "content", "strategy", "order", "format")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    path: str
    content: str
    strategy: MergeStrategy
    order: int
    format: str
    def __init__(self, path: _Optional[str] = ..., content: _Optional[str] = ..., strategy: _Optional[_Union[MergeStrategy, str]] = ..., order: _Optional[int] = ..., format: _Optional[str] = ...) -> None: ...

class ValidateRequest(_message.Message):
    __slots__ = ("rendered", "schema")
    RENDERED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    rendered: _containers.RepeatedCompositeFieldContainer[Fragment]
    schema: CigenSchema
    def __init__(self, rendered: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ..., schema: _Optional[_Union[CigenSchema, _Mapping]] = ...) -> None: ...

class ValidateResult(_message.Message):
    __slots__ = ("diagnostics",)
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    def __init__(self, diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ...) -> None: ...

class Diagnostic(_message.Message):
    __slots__ = ("level", "code", "title", "message", "fix_hint", "loc")
    class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LEVEL_UNSPECIFIED: _ClassVar[Diagnostic.Level]
        LEVEL_ERROR: _ClassVar[Diagnostic.Level]
        LEVEL_WARNING: _ClassVar[Diagnostic.Level]
        LEVEL_INFO: _ClassVar[Diagnostic.Level]
    LEVEL_UNSPECIFIED: Diagnostic.Level
    LEVEL_ERROR: Diagnostic.Level
    LEVEL_WARNING: Diagnostic.Level
    LEVEL_INFO: Diagnostic.Level
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIX_HINT_FIELD_NUMBER: _ClassVar[int]
    LOC_FIELD_NUMBER: _ClassVar[int]
    level: Diagnostic.Level
    code: str
    title: str
    message: str
    fix_hint: str
    loc: SourceLocation
    def __init__(self, level: _Optional[_Union[Diagnostic.Level, str]] = ..., code: _Optional[str] = ..., title: _Optional[str] = ..., message: _Optional[str] = ..., fix_hint: _Optional[str] = ..., loc: _Optional[_Union[SourceLocation, _Mapping]] = ...) -> None: ...

class SourceLocation(_message.Message):
    __slots__ = ("file", "line", "column", "snippet")
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SNIPPET_FIELD_NUMBER: _ClassVar[int]
    file: str
    line: int
    column: int
    snippet: str
    def __init__(self, file: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., snippet: _Optional[str] = ...) -> None: ...

class PreflightRequest(_message.Message):
    __slots__ = ("job_id", "repo_state", "previous_signature")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REPO_STATE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    repo_state: RepoState
    previous_signature: bytes
    def __init__(self, job_id: _Optional[str] = ..., repo_state: _Optional[_Union[RepoState, _Mapping]] = ..., previous_signature: _Optional[bytes] = ...) -> None: ...

class RepoState(_message.Message):
    __slots__ = ("commit_sha", "changes", "env")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMIT_SHA_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    commit_sha: str
    changes: _containers.RepeatedCompositeFieldContainer[FileChange]
    env: _containers.ScalarMap[str, str]
    def __init__(self, commit_sha: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[FileChange, _Mapping]]] = ..., env: _Optional[_Mapping[str, str]] = ...) -> None: ...

class FileChange(_message.Message):
    __slots__ = ("path", "type", "checksum")
    class ChangeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CHANGE_TYPE_UNSPECIFIED: _ClassVar[FileChange.ChangeType]
        CHANGE_TYPE_ADDED: _ClassVar[FileChange.ChangeType]
        CHANGE_TYPE_MODIFIED: _ClassVar[FileChange.ChangeType]
        CHANGE_TYPE_DELETED: _ClassVar[FileChange.ChangeType]
    CHANGE_TYPE_UNSPECIFIED: FileChange.ChangeType
    CHANGE_TYPE_ADDED: FileChange.ChangeType
    CHANGE_TYPE_MODIFIED: FileChange.ChangeType
    CHANGE_TYPE_DELETED: FileChange.ChangeType
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    path: str
    type: FileChange.ChangeType
    checksum: bytes
    def __init__(self, path: _Optional[str] = ..., type: _Optional[_Union[FileChange.ChangeType, str]] = ..., checksum: _Optional[bytes] = ...) -> None: ...

class PreflightResult(_message.Message):
    __slots__ = ("should_run", "reason", "new_signature")
    SHOULD_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NEW_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    should_run: bool
    reason: str
    new_signature: bytes
    def __init__(self, should_run: _Optional[bool] = ..., reason: _Optional[str] = ..., new_signature: _Optional[bytes] = ...) -> None: ...

class CigenSchema(_message.Message):
    __slots__ = ("version", "project", "variables", "jobs", "caches", "runners", "outputs", "workflows", "source_file_groups", "commands", "provider_config", "raw_config_yaml")
    class VariablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CachesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: CacheDefinition
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[CacheDefinition, _Mapping]] = ...) -> None: ...
    class RunnersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: RunnerDefinition
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[RunnerDefinition, _Mapping]] = ...) -> None: ...
    class SourceFileGroupsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: StringList
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[StringList, _Mapping]] = ...) -> None: ...
    class CommandsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: CommandDefinition
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[CommandDefinition, _Mapping]] = ...) -> None: ...
    class ProviderConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CACHES_FIELD_NUMBER: _ClassVar[int]
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FILE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    RAW_CONFIG_YAML_FIELD_NUMBER: _ClassVar[int]
    version: str
    project: ProjectConfig
    variables: _containers.ScalarMap[str, str]
    jobs: _containers.RepeatedCompositeFieldContainer[JobDefinition]
    caches: _containers.MessageMap[str, CacheDefinition]
    runners: _containers.MessageMap[str, RunnerDefinition]
    outputs: _containers.RepeatedCompositeFieldContainer[OutputConfig]
    workflows: _containers.RepeatedCompositeFieldContainer[WorkflowDefinition]
    source_file_groups: _containers.MessageMap[str, StringList]
    commands: _containers.MessageMap[str, CommandDefinition]
    provider_config: _containers.ScalarMap[str, str]
    raw_config_yaml: str
    def __init__(self, version: _Optional[str] = ..., project: _Optional[_Union[ProjectConfig, _Mapping]] = ..., variables: _Optional[_Mapping[str, str]] = ..., jobs: _Optional[_Iterable[_Union[JobDefinition, _Mapping]]] = ..., caches: _Optional[_Mapping[str, CacheDefinition]] = ..., runners: _Optional[_Mapping[str, RunnerDefinition]] = ..., outputs: _Optional[_Iterable[_Union[OutputConfig, _Mapping]]] = ..., workflows: _Optional[_Iterable[_Union[WorkflowDefinition, _Mapping]]] = ..., source_file_groups: _Optional[_Mapping[str, StringList]] = ..., commands: _Optional[_Mapping[str, CommandDefinition]] = ..., provider_config: _Optional[_Mapping[str, str]] = ..., raw_config_yaml: _Optional[str] = ...) -> None: ...

class ProjectConfig(_message.Message):
    __slots__ = ("name", "default_runner")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_RUNNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    default_runner: str
    def __init__(self, name: _Optional[str] = ..., default_runner: _Optional[str] = ...) -> None: ...

class StringList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkflowDefinition(_message.Message):
    __slots__ = ("id", "yaml", "run_when")
    ID_FIELD_NUMBER: _ClassVar[int]
    YAML_FIELD_NUMBER: _ClassVar[int]
    RUN_WHEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    yaml: str
    run_when: _containers.RepeatedCompositeFieldContainer[WorkflowCondition]
    def __init__(self, id: _Optional[str] = ..., yaml: _Optional[str] = ..., run_when: _Optional[_Iterable[_Union[WorkflowCondition, _Mapping]]] = ...) -> None: ...

class WorkflowCondition(_message.Message):
    __slots__ = ("kind", "key", "equals_yaml", "provider", "expression")
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EQUALS_YAML_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    kind: WorkflowConditionKind
    key: str
    equals_yaml: str
    provider: str
    expression: str
    def __init__(self, kind: _Optional[_Union[WorkflowConditionKind, str]] = ..., key: _Optional[str] = ..., equals_yaml: _Optional[str] = ..., provider: _Optional[str] = ..., expression: _Optional[str] = ...) -> None: ...

class JobDefinition(_message.Message):
    __slots__ = ("id", "needs", "matrix", "packages", "steps", "skip_if", "runner", "env", "image", "workflow", "checkout", "extra", "source_files", "package_specs", "services", "matrix_rows", "stage")
    class MatrixEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: MatrixValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[MatrixValue, _Mapping]] = ...) -> None: ...
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CheckoutEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    MATRIX_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SKIP_IF_FIELD_NUMBER: _ClassVar[int]
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    CHECKOUT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FILES_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_SPECS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    MATRIX_ROWS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    needs: _containers.RepeatedScalarFieldContainer[str]
    matrix: _containers.MessageMap[str, MatrixValue]
    packages: _containers.RepeatedScalarFieldContainer[str]
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    skip_if: SkipConfig
    runner: str
    env: _containers.ScalarMap[str, str]
    image: str
    workflow: str
    checkout: _containers.ScalarMap[str, str]
    extra: _containers.ScalarMap[str, str]
    source_files: _containers.RepeatedScalarFieldContainer[str]
    package_specs: _containers.RepeatedCompositeFieldContainer[PackageSpec]
    services: _containers.RepeatedScalarFieldContainer[str]
    matrix_rows: _containers.RepeatedCompositeFieldContainer[MatrixRow]
    stage: str
    def __init__(self, id: _Optional[str] = ..., needs: _Optional[_Iterable[str]] = ..., matrix: _Optional[_Mapping[str, MatrixValue]] = ..., packages: _Optional[_Iterable[str]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., skip_if: _Optional[_Union[SkipConfig, _Mapping]] = ..., runner: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., image: _Optional[str] = ..., workflow: _Optional[str] = ..., checkout: _Optional[_Mapping[str, str]] = ..., extra: _Optional[_Mapping[str, str]] = ..., source_files: _Optional[_Iterable[str]] = ..., package_specs: _Optional[_Iterable[_Union[PackageSpec, _Mapping]]] = ..., services: _Optional[_Iterable[str]] = ..., matrix_rows: _Optional[_Iterable[_Union[MatrixRow, _Mapping]]] = ..., stage: _Optional[str] = ...) -> None: ...

class MatrixValue(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class MatrixRow(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    def __init__(self, values: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("run", "uses", "restore_cache", "save_cache", "custom")
    RUN_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    RESTORE_CACHE_FIELD_NUMBER: _ClassVar[int]
    SAVE_CACHE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    run: RunStep
    uses: UsesStep
    restore_cache: RestoreCacheStep
    save_cache: SaveCacheStep
    custom: CustomStep
    def __init__(self, run: _Optional[_Union[RunStep, _Mapping]] = ..., uses: _Optional[_Union[UsesStep, _Mapping]] = ..., restore_cache: _Optional[_Union[RestoreCacheStep, _Mapping]] = ..., save_cache: _Optional[_Union[SaveCacheStep, _Mapping]] = ..., custom: _Optional[_Union[CustomStep, _Mapping]] = ...) -> None: ...

class RunStep(_message.Message):
    __slots__ = ("name", "command", "env")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    IF_FIELD_NUMBER: _ClassVar[int]
    name: str
    command: str
    env: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., command: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., **kwargs) -> None: ...

class UsesStep(_message.Message):
    __slots__ = ("name", "module")
    class WithEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    WITH_FIELD_NUMBER: _ClassVar[int]
    IF_FIELD_NUMBER: _ClassVar[int]
    name: str
    module: str
    def __init__(self, name: _Optional[str] = ..., module: _Optional[str] = ..., **kwargs) -> None: ...

class RestoreCacheStep(_message.Message):
    __slots__ = ("name", "key", "keys", "restore_keys", "extra")
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RESTORE_KEYS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    key: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    restore_keys: _containers.RepeatedScalarFieldContainer[str]
    extra: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., key: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., restore_keys: _Optional[_Iterable[str]] = ..., extra: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SaveCacheStep(_message.Message):
    __slots__ = ("name", "key", "paths", "extra")
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    key: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    extra: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., key: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., extra: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CustomStep(_message.Message):
    __slots__ = ("kind", "yaml")
    KIND_FIELD_NUMBER: _ClassVar[int]
    YAML_FIELD_NUMBER: _ClassVar[int]
    kind: str
    yaml: str
    def __init__(self, kind: _Optional[str] = ..., yaml: _Optional[str] = ...) -> None: ...

class SkipConfig(_message.Message):
    __slots__ = ("paths_unmodified", "env", "branch")
    PATHS_UNMODIFIED_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    paths_unmodified: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.RepeatedScalarFieldContainer[str]
    branch: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, paths_unmodified: _Optional[_Iterable[str]] = ..., env: _Optional[_Iterable[str]] = ..., branch: _Optional[_Iterable[str]] = ...) -> None: ...

class CacheDefinition(_message.Message):
    __slots__ = ("paths", "key_parts", "backend")
    PATHS_FIELD_NUMBER: _ClassVar[int]
    KEY_PARTS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedScalarFieldContainer[str]
    key_parts: _containers.RepeatedScalarFieldContainer[str]
    backend: str
    def __init__(self, paths: _Optional[_Iterable[str]] = ..., key_parts: _Optional[_Iterable[str]] = ..., backend: _Optional[str] = ...) -> None: ...

class RunnerDefinition(_message.Message):
    __slots__ = ("provider_config",)
    class ProviderConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROVIDER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    provider_config: _containers.ScalarMap[str, str]
    def __init__(self, provider_config: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PackageSpec(_message.Message):
    __slots__ = ("name", "manager", "path", "version", "extra")
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    manager: str
    path: str
    version: str
    extra: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., manager: _Optional[str] = ..., path: _Optional[str] = ..., version: _Optional[str] = ..., extra: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CommandDefinition(_message.Message):
    __slots__ = ("description", "parameters", "steps", "extra")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: CommandParameter
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[CommandParameter, _Mapping]] = ...) -> None: ...
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    description: str
    parameters: _containers.MessageMap[str, CommandParameter]
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    extra: _containers.ScalarMap[str, str]
    def __init__(self, description: _Optional[str] = ..., parameters: _Optional[_Mapping[str, CommandParameter]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., extra: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CommandParameter(_message.Message):
    __slots__ = ("type", "description", "default_yaml", "extra")
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_YAML_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    type: str
    description: str
    default_yaml: str
    extra: _containers.ScalarMap[str, str]
    def __init__(self, type: _Optional[str] = ..., description: _Optional[str] = ..., default_yaml: _Optional[str] = ..., extra: _Optional[_Mapping[str, str]] = ...) -> None: ...

class OutputConfig(_message.Message):
    __slots__ = ("provider", "path", "description")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    provider: str
    path: str
    description: str
    def __init__(self, provider: _Optional[str] = ..., path: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...
