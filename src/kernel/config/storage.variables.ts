import { anyText, httpUrl } from "./checks.ts";
import { boolean, integer, optional, optionalPath, secret, text } from "./variable.ts";

const bytes = { min: 0, max: 1_000_000_000_000_000 };

export const storageVariables = {
  STORAGE_MAX_ATTACHMENT_BYTES: integer(26_214_400, { min: 1, max: 5_368_709_120 }, "Bytes of an attachment."),
  STORAGE_MAX_PROJECT_BYTES: integer(0, bytes, "Bytes of a project's attachments and recordings; 0: no limit."),
  STORAGE_MAX_USER_BYTES: integer(0, bytes, "Bytes of the uploads of one user of a project; 0: no limit."),
  STORAGE_MIN_FREE_BYTES: integer(
    536_870_912,
    bytes,
    "Bytes to keep free on the disk of DATA_DIR: with less, attachments and recordings are refused.",
  ),
  STORAGE_UPLOAD_URL_TTL_SECONDS: integer(900, { min: 1, max: 604_800 }, "Lifetime of a signed upload URL."),
  STORAGE_DOWNLOAD_URL_TTL_SECONDS: integer(900, { min: 1, max: 604_800 }, "Lifetime of a signed download URL."),
  STORAGE_S3_BUCKET: optional(
    anyText,
    "Bucket for attachments and finished recordings. Unset: they are kept in DATA_DIR.",
  ),
  STORAGE_S3_ENDPOINT: optional(httpUrl, "Address of the S3-compatible service."),
  STORAGE_S3_REGION: text("us-east-1", anyText, "Region of the bucket."),
  STORAGE_S3_ACCESS_KEY_ID: optional(anyText, "Access key of the bucket."),
  STORAGE_S3_SECRET_ACCESS_KEY: secret(anyText, "Secret of the access key."),
};

export const recordingVariables = {
  HLS_TRANSCODE: boolean(false, "Transcode live streams in VP8 and VP9 for HLS with an installed ffmpeg."),
  RECORDING_DIR: optionalPath("Directory for recordings. Unset: recordings in DATA_DIR."),
  RECORDING_MAX_MINUTES: integer(720, { min: 1, max: 10_080 }, "Minutes after which a recording is stopped."),
  RECORDING_RETENTION_DAYS: integer(0, { min: 0, max: 36_500 }, "Days for which recordings are kept; 0 keeps them."),
  RECORDING_MIN_FREE_BYTES: integer(
    536_870_912,
    { min: 0, max: Number.MAX_SAFE_INTEGER },
    "Bytes that must be free on the disk for a recording to begin.",
  ),
};

export const egressVariables = {
  EGRESS_DIR: optionalPath("Directory for the files of live compositions. Unset: egress in DATA_DIR."),
  EGRESS_MAX_RUNNING: integer(
    4,
    { min: 0, max: 1_000 },
    "Live compositions at a time; each takes about one core at 720p. 0 switches them off.",
  ),
  EGRESS_MAX_PER_PROJECT: integer(
    0,
    { min: 0, max: 1_000 },
    "Live compositions of one project at a time; 0: three quarters of EGRESS_MAX_RUNNING, so that others have a share.",
  ),
  EGRESS_MAX_BYTES_PER_PROJECT: integer(
    107_374_182_400,
    { min: 0, max: Number.MAX_SAFE_INTEGER },
    "Bytes that the files of live compositions of one project may take in EGRESS_DIR; 0: no limit.",
  ),
  EGRESS_MAX_MINUTES: integer(720, { min: 1, max: 10_080 }, "Minutes after which a live composition is ended."),
  EGRESS_ALLOW_PRIVATE: boolean(false, "Whether live compositions may be sent to addresses of private networks."),
};

export const ingressVariables = {
  INGRESS_MAX_RUNNING: integer(
    4,
    { min: 0, max: 1_000 },
    "URLs that are fetched and transcoded into rooms at a time; each takes about one core at 720p. 0 switches them off.",
  ),
  INGRESS_MAX_PER_PROJECT: integer(
    0,
    { min: 0, max: 1_000 },
    "URLs of one project that are fetched at a time; 0: three quarters of INGRESS_MAX_RUNNING, so that others have a share.",
  ),
  INGRESS_ALLOW_PRIVATE: boolean(false, "Whether URLs in private networks may be fetched into rooms."),
  FORWARD_MAX_RUNNING: integer(
    16,
    { min: 0, max: 1_000 },
    "Participants whose tracks are forwarded to other rooms at a time, each by a process of its own. 0 switches it off.",
  ),
  FORWARD_MAX_PER_PROJECT: integer(
    0,
    { min: 0, max: 1_000 },
    "Participants of one project that are forwarded at a time; 0: three quarters of FORWARD_MAX_RUNNING, so that others have a share.",
  ),
};

export const backupVariables = {
  BACKUP_DIR: optionalPath("Directory for scheduled backups. Unset: no backups."),
  BACKUP_EVERY_HOURS: integer(24, { min: 1, max: 8760 }, "Hours between two backups."),
  BACKUP_KEEP: integer(7, { min: 1, max: 10_000 }, "Backups kept in BACKUP_DIR; older ones are removed."),
};
