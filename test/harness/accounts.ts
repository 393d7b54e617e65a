import type { Unit } from "../../src/kernel/db/writer.ts";
import type { Runtime } from "../../src/kernel/runtime.ts";
import type { Environment, ProjectRole } from "../../src/protocol/enums.ts";
import type { Services } from "../../src/services.ts";

export type TestProject = { projectId: string; ownerId: string; key: string };
/** `token` goes where a key goes: `call(method, path, { key: token })`. */
export type TestSession = { token: string; userId: string; email: string; projectId: string };
type SessionOptions = { projectId?: string; role?: ProjectRole; operator?: boolean };

export type TestAccounts = {
  /** Creates a project with an owner and an API key of the requested environment. */
  project(options?: { environment?: Environment; name?: string }): Promise<TestProject>;
  /** Creates a signed-in user: without a project by default, with `role` a member of `projectId` or of a new project. */
  session(options?: SessionOptions): Promise<TestSession>;
};

/** Creates accounts without the cost of a password hash. */
export function createTestAccounts({ write, ids }: Runtime, services: Services): TestAccounts {
  const { users, sessions, members, projects, apiKeys } = services;
  const newUser = (unit: Unit, isOperator: boolean) =>
    users.create(unit, { email: `${ids.uuid()}@example.com`, passwordHash: null, emailVerified: true, isOperator });

  return {
    project: ({ environment = "DEVELOPMENT", name = "test" } = {}) =>
      write((unit) => {
        const { id: ownerId } = newUser(unit, false);
        const { id: projectId } = projects.create(unit, ownerId, { name });
        const { key } = apiKeys.create(unit, projectId, { name: "test", environment });
        return { projectId, ownerId, key };
      }),

    async session({ projectId, role, operator = false } = {}) {
      const { user, started, joined } = await write((unit) => {
        const user = newUser(unit, operator);
        const joined =
          role === undefined ? "" : (projectId ?? projects.create(unit, newUser(unit, false).id, { name: "test" }).id);
        if (role !== undefined) members.join(unit, joined, user.id, role);
        return { user, joined, started: sessions.start(unit, user.id, { ip: "127.0.0.1", userAgent: null }) };
      });
      const { accessToken: token } = await sessions.signIn(user, started);
      return { token, userId: user.id, email: user.email, projectId: joined };
    },
  };
}
