import { afterAll, expect, test } from "bun:test";
import { digestsOf, findUsersToErase, type ListedErasure } from "../../../src/features/privacy/erasure-list.ts";
import { createKeyring } from "../../../src/kernel/crypto/secrets.ts";
import type { User } from "../../../src/kernel/personal-data.ts";
import { personalColumns } from "../../../src/services.ts";
import { rtcServer } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { projectId, runtime } = server;
const config = { ...runtime.config, STOA_SECRET: "a secret of thirty-two characters" };
const keyring = createKeyring(config.STOA_SECRET);

function listed(userId: string, key = keyring.fingerprint): ListedErasure {
  const user: User = { projectId, environment: "DEVELOPMENT", userId };
  return { id: userId, at: 0, projectId, environment: "DEVELOPMENT", digest: digestsOf(keyring, user)[0] ?? "", key };
}

test("[19] users of a backup are found by digest, even in a backup that lacks a table of today", async () => {
  const { key } = server;
  const created = await server.call("POST", "/v1/chat/conversations", {
    key,
    body: { name: "hall", members: [{ userId: "zoe" }, { userId: "bob" }] },
  });
  expect(created.status).toBe(201);
  runtime.db.$client.run("DROP TABLE notification_settings");
  const erasures = [listed("zoe"), listed("never-seen"), listed("bob", "another key")];
  const { found, unreadable } = findUsersToErase(runtime.db, personalColumns, config, erasures);
  expect(found.map(({ user }) => user)).toEqual([{ projectId, environment: "DEVELOPMENT", userId: "zoe" }]);
  expect(unreadable).toBe(1);
});
