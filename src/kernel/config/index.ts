export { readConfigFile } from "./file.ts";
export { ConfigError, type ConfigInput, loadConfig, type Source, type Sources } from "./load.ts";
export type { OAuthProvider, OAuthProviders } from "./oauth.ts";
export { type Config, flagOf, GROUPS, VARIABLE_NAMES, VARIABLES, type VariableName } from "./variables.ts";
