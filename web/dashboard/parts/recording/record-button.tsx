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

/** Starts or stops recording a room. */
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
      done="Recording. In an empty room it starts with the first packet."
      run={() => request(at.rooms({ roomId }).recordings.post({})).then(onChanged)}
    >
      Record
    </Action>
  );
}

/** The badge of a room that is being recorded. */
export function RecordingDot() {
  return (
    <span class="badge bad recording" role="status">
      Recording
    </span>
  );
}
