/** What a recorded file is called in the bucket: also a person finds it there. */
export const objectKeyOf = ({ recordingId, fileName }: { recordingId: string; fileName: string }): string =>
  `recordings/${recordingId}/${fileName}`;
