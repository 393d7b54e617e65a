import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { ApiError } from "../../protocol/errors.ts";
import { type UserRow, userStore } from "./user.store.ts";

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
    normalizeEmail,
    findByEmail: (email: string) => store.findByEmail(normalizeEmail(email)),
    /** The first operator owns the projects that the command line creates. */
    findOperator: store.findOperator,
    /** True until the first account is created: the installation has no operator. */
    isEmpty: store.isEmpty,

    /** The first account of an installation is its operator. */
    create(unit: Unit, input: NewUser & { isOperator?: boolean }): UserRow {
      const email = normalizeEmail(input.email);
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

    update(unit: Unit, id: string, change: Partial<Omit<UserRow, "id">>): UserRow {
      store.update(unit, id, change);
      return get(id);
    },
  };
}

export function presentUser({ id, email, name, emailVerified, isOperator, createdAt }: UserRow) {
  return { id, email, name, emailVerified, isOperator, createdAt: iso(createdAt) };
}

/** Mail servers no longer distinguish `A@` from `a@`, but users type both. */
function normalizeEmail(email: string): string {
  return email.trim().toLowerCase();
}
