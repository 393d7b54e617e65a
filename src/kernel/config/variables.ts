import { accountVariables } from "./account.variables.ts";
import { chatVariables } from "./chat.variables.ts";
import { clusterVariables } from "./cluster.variables.ts";
import { edgeVariables } from "./edge.variables.ts";
import { mediaVariables } from "./media.variables.ts";
import type { OAuthProviders } from "./oauth.ts";
import { rateLimitVariables } from "./rate-limit.variables.ts";
import { serveVariables } from "./serve.variables.ts";
import {
  backupVariables,
  egressVariables,
  ingressVariables,
  recordingVariables,
  storageVariables,
} from "./storage.variables.ts";
import { tracingVariables } from "./tracing.variables.ts";
import type { Variable } from "./variable.ts";
import { pushVariables, webhookVariables } from "./webhook.variables.ts";

/** The single schema of flags, environment, file, validation and documentation. */
export const VARIABLES = {
  ...serveVariables,
  ...clusterVariables,
  ...edgeVariables,
  ...accountVariables,
  ...mediaVariables,
  ...chatVariables,
  ...storageVariables,
  ...recordingVariables,
  ...egressVariables,
  ...ingressVariables,
  ...backupVariables,
  ...webhookVariables,
  ...tracingVariables,
  ...pushVariables,
  ...rateLimitVariables,
};

export type VariableName = keyof typeof VARIABLES;

type ValueOf<Entry> = Entry extends Variable<infer Value> ? Value : never;

/** Every variable under its own name, typed, plus the providers that the OAUTH_<NAME>_… variables describe. */
export type Config = Readonly<{ [Name in VariableName]: ValueOf<(typeof VARIABLES)[Name]> }> & {
  readonly OAUTH: OAuthProviders;
};

export const GROUPS: readonly { title: string; names: readonly VariableName[] }[] = [
  { title: "Server", names: namesOf(serveVariables) },
  { title: "Standbys", names: namesOf(clusterVariables) },
  { title: "One port: TLS, certificate and relay", names: namesOf(edgeVariables) },
  { title: "Accounts, mail and usage", names: namesOf(accountVariables) },
  { title: "Media and signaling", names: namesOf(mediaVariables) },
  { title: "Chat", names: namesOf(chatVariables) },
  { title: "Attachments", names: namesOf(storageVariables) },
  { title: "Recordings", names: namesOf(recordingVariables) },
  { title: "Live compositions", names: namesOf(egressVariables) },
  { title: "Ingress", names: namesOf(ingressVariables) },
  { title: "Backups", names: namesOf(backupVariables) },
  { title: "Webhooks", names: namesOf(webhookVariables) },
  { title: "Traces and metrics", names: namesOf(tracingVariables) },
  { title: "Push", names: namesOf(pushVariables) },
  { title: "Rate limits", names: namesOf(rateLimitVariables) },
];

export const VARIABLE_NAMES: readonly VariableName[] = namesOf(VARIABLES);

export function isVariableName(name: string): name is VariableName {
  return Object.hasOwn(VARIABLES, name);
}

export function flagOf(name: string): string {
  return `--${name.toLowerCase().replaceAll("_", "-")}`;
}

function namesOf<Name extends string>(variables: Record<Name, unknown>): Name[] {
  return Object.keys(variables) as Name[];
}
