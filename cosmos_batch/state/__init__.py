"""The DynamoDB table that Lambda functions and workers share (decision 001). `table` lists its kinds of rows.

`new_objects` writes objects of the state bucket with the same care: only the first of several writers succeeds.
"""

from cosmos_batch.state.callbacks import Callbacks
from cosmos_batch.state.fed_items import FedItems, RunFeeding
from cosmos_batch.state.feed_turns import FeedTurns
from cosmos_batch.state.groups import Group, Groups
from cosmos_batch.state.item_ends import count_item, end_of
from cosmos_batch.state.item_jobs import ItemJobs
from cosmos_batch.state.job_rows import FINAL, Attempt, ItemFacts, JobEnd, JobRow, JobState, Waiting
from cosmos_batch.state.jobs import Jobs
from cosmos_batch.state.new_objects import write_once
from cosmos_batch.state.reports import Reports
from cosmos_batch.state.reserved_keys import ReservedKeys
from cosmos_batch.state.revisions import RecordedRevision, Revisions
from cosmos_batch.state.run_rows import ItemEnd, RunRow, ShardFacts, ShardRow, Watcher, token_id
from cosmos_batch.state.runs import Runs, StillEnding
from cosmos_batch.state.shards import Shards
from cosmos_batch.state.shortages import Shortage, Shortages
from cosmos_batch.state.staged_documents import StagedDocuments
from cosmos_batch.state.table import ConditionFailed, Table
from cosmos_batch.state.workers import Cause, PipelineRow, WorkerRow, Workers, outage_of

__all__ = [
    "FINAL",
    "Attempt",
    "Callbacks",
    "Cause",
    "ConditionFailed",
    "FedItems",
    "FeedTurns",
    "Group",
    "Groups",
    "ItemEnd",
    "ItemFacts",
    "ItemJobs",
    "JobEnd",
    "JobRow",
    "JobState",
    "Jobs",
    "PipelineRow",
    "RecordedRevision",
    "Reports",
    "ReservedKeys",
    "Revisions",
    "RunFeeding",
    "RunRow",
    "Runs",
    "ShardFacts",
    "ShardRow",
    "Shards",
    "Shortage",
    "Shortages",
    "StagedDocuments",
    "StillEnding",
    "Table",
    "Waiting",
    "Watcher",
    "WorkerRow",
    "Workers",
    "count_item",
    "end_of",
    "outage_of",
    "token_id",
    "write_once",
]
