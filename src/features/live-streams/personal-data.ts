import { changing, reading } from "../../kernel/db/statements.ts";
import { removeStoredResponses } from "../../kernel/http/idempotency.ts";
import { ERASED, type PersonalColumns, type PersonalData, type User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { namesUser } from "../chat/redaction.ts";

const OF_STREAM = "JOIN live_streams s ON s.id = stream_id";

export const liveStreamPersonalColumns: PersonalColumns = {
  userIds: {
    "live_streams.host_identity": "",
    "live_stream_hosts.identity": OF_STREAM,
    "live_stream_viewers.identity": OF_STREAM,
  },
  content: ["idempotency_keys.body"],
};

/** The live streams that a user hosted or watched. */
export function liveStreamPersonalData(runtime: Runtime): PersonalData {
  const { $client: client } = runtime.db;
  const OF_TENANT = "project_id = ?1 AND environment = ?2";
  const STREAMS = `(SELECT id FROM live_streams WHERE ${OF_TENANT})`;
  const roles = reading<{ streamId: string; role: string; at: number }, [string, string, string]>(
    client,
    `SELECT s.public_id AS streamId, h.role AS role, h.added_at AS at FROM live_streams s
         JOIN live_stream_hosts h ON h.stream_id = s.id AND h.identity = ?3 WHERE s.${OF_TENANT}
       UNION ALL SELECT s.public_id, 'VIEWER', v.joined_at FROM live_streams s
         JOIN live_stream_viewers v ON v.stream_id = s.id AND v.identity = ?3 WHERE s.${OF_TENANT}`,
  );
  const streamOf = reading<{ id: string }, [string, string, string]>(
    client,
    `SELECT id FROM live_streams WHERE ${OF_TENANT} AND public_id = ?3`,
  );
  const eraseRoles = [
    `DELETE FROM live_stream_hosts WHERE identity = ?3 AND stream_id IN ${STREAMS}`,
    `DELETE FROM live_stream_viewers WHERE identity = ?3 AND stream_id IN ${STREAMS}`,
    `UPDATE live_streams SET host_identity = '${ERASED}' WHERE ${OF_TENANT} AND host_identity = ?3`,
  ].map((text) => changing<[string, string, string]>(client, text));

  return {
    kinds: {
      liveStreams: async function* ({ projectId, environment, userId }: User) {
        yield roles.all(projectId, environment, userId).map(({ at, ...role }) => ({ ...role, at: iso(at) }));
      },
    },
    async erase({ projectId, environment, userId }) {
      await runtime.write((unit) => {
        for (const statement of eraseRoles) statement.run(unit, projectId, environment, userId);
      });
      await removeStoredResponses(runtime, (body) => {
        const { id } = body as { id?: unknown };
        return namesUser(body, userId) && streamOf.get(projectId, environment, String(id)) !== null;
      });
    },
  };
}
