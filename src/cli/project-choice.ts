import type { Unit } from "../kernel/db/writer.ts";
import { NEWEST } from "../kernel/http/serving/pages.ts";
import type { Services } from "../services.ts";
import { CommandFailure } from "./failure.ts";

const ALL = 1_000_000;

/** The project that is meant: by id or name, or the only one there is. It may make one. */
export function chooseProject(
  unit: Unit,
  services: Services,
  wanted: string | undefined,
  mayCreate: boolean,
): { id: string } {
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

export function keysOf(services: Services, wanted?: string) {
  const { projects, apiKeys } = services;
  const chosen = projects
    .listActive()
    .filter(({ id, name }) => wanted === undefined || id === wanted || name === wanted);
  if (wanted !== undefined && chosen.length === 0) throw new CommandFailure(`there is no project ${wanted}.`);
  return chosen.flatMap(({ id, name }) =>
    apiKeys.list(id, undefined, NEWEST, ALL).map((row) => ({ ...apiKeys.present(row), projectName: name })),
  );
}

export function findKey(services: Services, wanted: string) {
  const key = keysOf(services).find(({ id, publicId }) => id === wanted || publicId === wanted);
  if (key === undefined) throw new CommandFailure(`there is no API key ${wanted}. See \`stoa keys list\`.`);
  return key;
}
