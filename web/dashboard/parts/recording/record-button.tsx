import type { Environment } from "../../../../src/protocol/enums.ts";
import { request } from "../../api.ts";
import { useProject } from "../../project.ts";
import { Action } from "../action.tsx";

type RecordButtonProps = {
  roomId: string;
  environment: Environment;
  recording: boolean;
  onChanged: () => void;
};

/** Begins to record a room, or ends what runs in it. */
export function RecordButton({ roomId, environment, recording, onChanged }: RecordButtonProps) {
  const { at } = useProject();
  const stop = async () => {
    const running = await request(at.recordings.get({ query: { roomId, status: "RECORDING", environment } }));
    for (const { id: recordingId } of running) await request(at.recordings({ recordingId }).stop.post());
    onChanged();
  };
  return recording ? (
    <Action done="The recording was stopped." run={stop}>
      Stop recording
    </Action>
  ) : (
    <Action
      done="Recording. An empty room is recorded from its first packet on."
      run={() => request(at.rooms({ roomId }).recordings.post({})).then(onChanged)}
    >
      Record
    </Action>
  );
}
