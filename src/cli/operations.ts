import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { presentUser } from "../features/accounts/user.service.ts";
import { COMMAND_LINE } from "../kernel/author.ts";
import type { Unit } from "../kernel/db/writer.ts";
import { NEWEST } from "../kernel/http/serving/pages.ts";
import type { Runtime } from "../kernel/runtime.ts";
import type { Environment } from "../protocol/enums.ts";
import type { Services } from "../services.ts";
import { CommandFailure } from "./failure.ts";

const ALL = 1_000_000;

/** The operations of commands on the data. They run in this process, or on the leader of the cluster. */
type Inputs = {
  "admin create": { email: string; password: string; name?: string };
  "admin reset-password": { email: string; password: string };
  "keys create": { project?: string; createProject: boolean; name: string; environment: Environment };
  "livekit adopt": {
    project?: string;
    createProject: boolean;
    environment: Environment;
    keys: { apiKey: string; apiSecret: string }[];
    webhook: { apiKey: string; urls: string[] } | null;
  };
  "keys list": { project?: string };
  "keys revoke": { key: string };
  "keys secret": { key: string };
  "node-keys create": { name: string };
  "node-keys list": object;
  "node-keys revoke": { key: string };
  "nodes drain": { name: string; draining: boolean };
  "nodes show": { name: string };
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
  "livekit adopt": (services: Services, { write }: Runtime, input: Inputs["livekit adopt"]) =>
    write((unit) => {
      const { environment, keys, webhook } = input;
      const { id: projectId } = chooseProject(unit, services, input.project, input.createProject);
      const imported = keys.map((key) => services.apiKeys.importLivekit(unit, projectId, { ...key, environment }));
      const signer = imported.find(({ key }) => key.publicId === webhook?.apiKey)?.key;
      const known = new Set(
        services.webhooks.list(projectId, environment, NEWEST, ALL).map(({ url, format }) => `${format} ${url}`),
      );
      const urls = (webhook?.urls ?? []).filter((url) => signer && !known.has(`livekit ${url}`));
      for (const url of urls) {
        const endpoint = { url, environment, format: "livekit", apiKeyId: signer?.id } as const;
        services.webhooks.create(unit, projectId, endpoint, COMMAND_LINE);
      }
      return { keys: imported.map(({ key, imported: isNew }) => ({ publicId: key.publicId, isNew })), urls };
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
  "nodes drain": async ({ fleet }: Services, { write }: Runtime, { name, draining }: Inputs["nodes drain"]) => {
    const names = fleet.all().map((node) => node.name);
    if (!names.includes(name)) {
      const known = names.length === 0 ? "None has registered yet." : `The nodes are: ${names.join(", ")}.`;
      throw new CommandFailure(`there is no media node ${name}. ${known}`);
    }
    return write((unit) => (draining ? fleet.drain : fleet.undrain)(unit, name, COMMAND_LINE));
  },
  "nodes show": async ({ fleet }: Services, _: Runtime, { name }: Inputs["nodes show"]) =>
    fleet.present(fleet.find(name)),
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

/** The request comes from another process, which may have another version. */
function performRequest(services: Services, runtime: Runtime, request: unknown): Promise<unknown> {
  if (!Value.Check(Request, request) || !Object.hasOwn(OPERATIONS, request.name)) {
    return Promise.reject(new Error("the server that leads does not know this command; it may be of another version"));
  }
  return perform(services, runtime, request.name as OperationName, request.input as never);
}

export type Outcome = { result: unknown } | { failure: { message: string; wrongUsage: boolean } };

/** Runs on the leader for a command on another server. */
export async function performForMember(services: Services, runtime: Runtime, request: unknown): Promise<Outcome> {
  try {
    return { result: (await performRequest(services, runtime, request)) ?? null };
  } catch (error) {
    const { message } = error as Error;
    return { failure: { message, wrongUsage: error instanceof CommandFailure && error.wrongUsage } };
  }
}

/** Finds the project by id or name, or takes the only one; with `mayCreate` a missing project is created. */
function chooseProject(unit: Unit, services: Services, wanted: string | undefined, mayCreate: boolean): { id: string } {
  const { projects } = services;
  const active = projects.listActive();
  const matching = wanted === undefined ? active : active.filter(({ id, name }) => id === wanted || name === wanted);
  const [only, another] = matching;
  if (only !== undefined && another === undefined) return only;
  if (only !== undefined) {
    const names = matching.map(({ id, name }) => `${name} (${id})`).join(", ");
    throw new CommandFailure(`say which project by --project: ${names}`, true);
  }
  if (!mayCreate || wanted === undefined) {
    throw new CommandFailure(
      wanted === undefined
        ? "there is no project yet. Make one with --project NAME --create-project."
        : `there is no project ${wanted}. Make it with --create-project.`,
    );
  }
  const owner = services.users.findOperator();
  if (owner === undefined) throw new CommandFailure("there is no account yet. Make one with `stoa admin create`.");
  return projects.create(unit, owner.id, { name: wanted });
}

function keysOf(services: Services, wanted?: string) {
  const { projects, apiKeys } = services;
  const chosen = projects
    .listActive()
    .filter(({ id, name }) => wanted === undefined || id === wanted || name === wanted);
  if (wanted !== undefined && chosen.length === 0) throw new CommandFailure(`there is no project ${wanted}.`);
  return chosen.flatMap(({ id, name }) =>
    apiKeys.list(id, undefined, NEWEST, ALL).map((row) => ({ ...apiKeys.present(row), projectName: name })),
  );
}

function findKey(services: Services, wanted: string) {
  const key = keysOf(services).find(({ id, publicId }) => id === wanted || publicId === wanted);
  if (key === undefined) throw new CommandFailure(`there is no API key ${wanted}. See \`stoa keys list\`.`);
  return key;
}
