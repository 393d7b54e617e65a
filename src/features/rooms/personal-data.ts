import { changing, reading } from "../../kernel/db/statements.ts";
import type { PersonalColumns, PersonalData, User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { createTokenCutoffs } from "./token-cutoffs.ts";

const OF_ROOM = "JOIN rooms r ON r.id = room_id";

export const roomPersonalColumns: PersonalColumns = {
  userIds: {
    "rtc_tokens.participant_identity": OF_ROOM,
    "participant_permissions.participant_identity": OF_ROOM,
  },
  content: [],
};

/** The tokens with which a user joins rooms, and the permissions there. */
export function roomPersonalData(runtime: Runtime, liveRooms: LiveRooms): PersonalData {
  const { bus, db } = runtime;
  const { $client: client } = db;
  const cutoffs = createTokenCutoffs(runtime);
  const tokens = reading<{ tokenId: string; roomId: string }, [string, string, string]>(
    client,
    `SELECT t.id AS tokenId, t.room_id AS roomId FROM rtc_tokens t JOIN rooms r ON r.id = t.room_id
       WHERE r.project_id = ?1 AND r.environment = ?2 AND t.participant_identity = ?3`,
  );
  const removeToken = changing<[string]>(client, "DELETE FROM rtc_tokens WHERE id = ?");
  const removePermissions = changing<[string, string, string]>(
    client,
    `DELETE FROM participant_permissions WHERE participant_identity = ?3
       AND room_id IN (SELECT id FROM rooms WHERE project_id = ?1 AND environment = ?2)`,
  );
  const tokensOf = ({ projectId, environment, userId }: User) => tokens.all(projectId, environment, userId);

  return {
    kinds: {
      tokens: async function* (user) {
        yield tokensOf(user);
      },
    },
    revoke(unit, user) {
      const { projectId, environment, userId: identity } = user;
      for (const { tokenId } of tokensOf(user)) removeToken.run(unit, tokenId);
      removePermissions.run(unit, projectId, environment, identity);
      cutoffs.cutOff(unit, { projectId, environment, roomName: null, identity });
      for (const roomId of liveRooms.roomsOf(user, identity)) {
        bus.publish(unit, "participantRemoved", { roomId, identity });
      }
    },
    isConnected: (user) => liveRooms.roomsOf(user, user.userId).length > 0,
  };
}
