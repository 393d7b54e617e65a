import type { Environment } from "../protocol/enums.ts";

type Actor = { type: "user"; id: string; email: string } | { type: "api_key"; id: string; name: string };

/** The author of an audited action, and its request; both are null for the command line. */
export type Author = {
  actor: Actor | null;
  request: { id: string; ip: string; userAgent: string | null } | null;
  /** The environment that the request chose; API keys and webhooks have an environment of their own. */
  environment: Environment;
};

export const COMMAND_LINE: Author = { actor: null, request: null, environment: "DEVELOPMENT" };
