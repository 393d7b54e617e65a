import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { presentUser } from "../features/accounts/user.service.ts";
import type { Runtime } from "../kernel/runtime.ts";
import type { Environment } from "../protocol/enums.ts";
import type { Services } from "../services.ts";
import { CommandFailure } from "./failure.ts";
import { chooseProject, findKey, keysOf } from "./project-choice.ts";

/*
 * What commands do with data, apart from how they ask and what they print: it happens here, or on the server that leads
 * when several share a commit log.
 */

type Inputs = {
  "admin create": { email: string; password: string; name?: string };
  "admin reset-password": { email: string; password: string };
  "keys create": { project?: string; createProject: boolean; name: string; environment: Environment };
  "keys list": { project?: string };
  "keys revoke": { key: string };
  "keys secret": { key: string };
  "node-keys create": { name: string };
  "node-keys list": object;
  "node-keys revoke": { key: string };
};

const OPERATIONS = {
  "admin create": async ({ accounts }: Services, _runtime: Runtime, input: Inputs["admin create"]) =>
    presentUser(await accounts.createOperator(input)),
  "admin reset-password": async ({ recovery }: Services, _: Runtime, input: Inputs["admin reset-password"]) => {
    await recovery.setPassword(input.email, input.password);
    return null;
  },
  "keys create": (services: Services, { write }: Runtime, input: Inputs["keys create"]) =>
    write((unit) => {
      const { id } = chooseProject(unit, services, input.project, input.createProject);
      return services.apiKeys.create(unit, id, { name: input.name, environment: input.environment });
    }),
  "keys list": async (services: Services, _: Runtime, { project }: Inputs["keys list"]) => keysOf(services, project),
  "keys revoke": async (services: Services, { write }: Runtime, { key }: Inputs["keys revoke"]) => {
    const { id, projectId, publicId } = findKey(services, key);
    const { revoked } = await write((unit) => services.apiKeys.revoke(unit, projectId, id));
    return { publicId, revoked };
  },
  "keys secret": async (services: Services, { write }: Runtime, { key }: Inputs["keys secret"]) => {
    const { id, projectId } = findKey(services, key);
    return write((unit) => services.apiKeys.revealSigningSecret(unit, projectId, id));
  },
  "node-keys create": ({ nodeKeys }: Services, { write }: Runtime, { name }: Inputs["node-keys create"]) =>
    write((unit) => nodeKeys.create(unit, name)),
  "node-keys list": async ({ nodeKeys }: Services) => nodeKeys.list(),
  "node-keys revoke": ({ nodeKeys }: Services, { write }: Runtime, { key }: Inputs["node-keys revoke"]) =>
    write((unit) => ({ revoked: nodeKeys.revoke(unit, key) })),
};

export type OperationName = keyof typeof OPERATIONS;
export type OperationInput<Name extends OperationName> = Inputs[Name];
export type OperationResult<Name extends OperationName> = Awaited<ReturnType<(typeof OPERATIONS)[Name]>>;

const Request = Type.Object({ name: Type.String(), input: Type.Object({}, { additionalProperties: true }) });

export function perform<Name extends OperationName>(
  services: Services,
  runtime: Runtime,
  name: Name,
  input: OperationInput<Name>,
): Promise<OperationResult<Name>> {
  const operation = OPERATIONS[name] as (...args: unknown[]) => Promise<OperationResult<Name>>;
  return operation(services, runtime, input);
}

/** For what another process asks: it may be of another version. */
function performRequest(services: Services, runtime: Runtime, request: unknown): Promise<unknown> {
  if (!Value.Check(Request, request) || !Object.hasOwn(OPERATIONS, request.name)) {
    return Promise.reject(new Error("the server that leads does not know this command; it may be of another version"));
  }
  return perform(services, runtime, request.name as OperationName, request.input as never);
}

export type Outcome = { result: unknown } | { failure: { message: string; wrongUsage: boolean } };

/** What the server that leads does with it. */
export async function performForMember(services: Services, runtime: Runtime, request: unknown): Promise<Outcome> {
  try {
    return { result: (await performRequest(services, runtime, request)) ?? null };
  } catch (error) {
    const { message } = error as Error;
    return { failure: { message, wrongUsage: error instanceof CommandFailure && error.wrongUsage } };
  }
}
