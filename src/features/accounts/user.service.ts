import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import { userStore } from "./user.store.ts";
import type { UserRow } from "./user.table.ts";

type NewUser = { email: string; name?: string; passwordHash: string | null; emailVerified: boolean };

export type UserService = ReturnType<typeof userService>;

export function userService({ db, ids, now }: Runtime) {
  const store = userStore(db);

  function get(id: string): UserRow {
    const row = store.find(id);
    if (!row) throw new ApiError("SVC_USER_NOT_FOUND");
    return row;
  }

  return {
    get,
    normalEmail,
    findByEmail: (email: string) => store.findByEmail(normalEmail(email)),
    /** The first one, to whom the command line gives what it makes. */
    findOperator: store.findOperator,
    /** No account exists yet: the installation has no operator. */
    isEmpty: store.isEmpty,
    show: showUser,

    /** The first account of an installation is its operator. */
    create(unit: Unit, input: NewUser & { isOperator?: boolean }): UserRow {
      const email = normalEmail(input.email);
      if (store.findByEmail(email)) throw new ApiError("SVC_CONFLICT", "An account with this address exists already.");
      const row: UserRow = {
        id: ids.uuid(),
        email,
        name: input.name?.trim() || null,
        passwordHash: input.passwordHash,
        emailVerified: input.emailVerified,
        isOperator: input.isOperator ?? store.isEmpty(),
        createdAt: now(),
      };
      store.insert(unit, row);
      return row;
    },

    rename(unit: Unit, id: string, name: string | null): UserRow {
      store.update(unit, id, { name: name?.trim() || null });
      return get(id);
    },

    update(unit: Unit, id: string, change: Partial<Omit<UserRow, "id">>): UserRow {
      store.update(unit, id, change);
      return get(id);
    },
  };
}

export function showUser(row: UserRow) {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    emailVerified: row.emailVerified,
    isOperator: row.isOperator,
    createdAt: iso(row.createdAt),
  };
}

/** Mail servers that tell `A@` from `a@` are extinct; people who type either are not. */
function normalEmail(email: string): string {
  return email.trim().toLowerCase();
}
